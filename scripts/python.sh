# Sourced: sets PYTHON to a Python 3.11 or later that can make virtual environments.

if [ -z "${PYTHON:-}" ]; then
    for PYTHON in python3 python3.14 python3.13 python3.12 python3.11 none; do
        "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
    done
fi
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Fencepost needs Python 3.11 or later; found none. Install one, or: make PYTHON=/path/to/python" >&2
    exit 1
fi

# Debian keeps the parts that make environments in a package of their own.
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    package="python$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "installing $package" >&2
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        echo "$PYTHON cannot make virtual environments; on Debian or Ubuntu: sudo apt install $package" >&2
        exit 1
    fi
fi
