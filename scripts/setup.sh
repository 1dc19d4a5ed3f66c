#!/bin/sh
# Make the virtual environment $1: Fencepost, editable, with all its extras, at pinned versions.
set -eu
cd "$(dirname "$0")/.."
venv=$1

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    . scripts/python.sh
    echo "making $venv with $("$PYTHON" --version)"
    "$PYTHON" -m venv --clear "$venv"
fi

pip() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet -c constraints.txt "$@"
}
echo "installing Fencepost and what it needs into $venv"
# The build's own tools first: they are pinned too, so the build needs no environment of its own.
pip hatchling editables
pip --no-build-isolation --editable '.[server,curl,dev]'
