#!/bin/sh
# Write the newest versions of everything that Fencepost needs into $1, tried in an empty environment.
set -eu
cd "$(dirname "$0")/.."
. scripts/python.sh

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$PYTHON" -m venv "$scratch/venv"
pip="$scratch/venv/bin/python -m pip --disable-pip-version-check"
$pip install --quiet hatchling editables
$pip install --quiet --no-build-isolation '.[server,curl,dev]'
$pip freeze --exclude fencepost | grep '==' >"$scratch/constraints.txt"
mv "$scratch/constraints.txt" "$1"
