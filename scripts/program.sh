#!/bin/sh
# Make sure that there is a program that the tests need; print where: program.sh PACKAGE [OTHER NAMES…]
set -eu
package=$1
PATH=$PATH:/usr/sbin

find_it() {
    for name in "$@"; do
        command -v "$name" && return 0
    done
    return 1
}

find_it "$@" && exit 0
if [ "$(id -u)" -eq 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
    echo "installing $package for the tests" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    find_it "$@" && exit 0
fi
echo "The tests need $package, and it was not found: install the package of that name." >&2
exit 1
