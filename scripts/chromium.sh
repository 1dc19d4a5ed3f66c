#!/bin/sh
# Make sure that there is a Chromium for the browser tests; print where.
set -eu

find_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return 0
    done
    return 1
}

find_browser && exit 0
if [ "$(id -u)" -eq 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
    echo "installing Chromium for the browser tests" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
    find_browser && exit 0
fi
echo "The browser tests need Chromium, and none was found: install the package chromium or google-chrome." >&2
exit 1
