#!/bin/sh
# Install the Debian packages that tests need, where that is possible; elsewhere say which are missing.
set -eu
list="$(dirname "$0")/system-packages.txt"
missing=""
for package in $(grep -v '^#' "$list"); do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    # shellcheck disable=SC2086  # a list of names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "not installed, so the tests that need them are skipped:$missing" >&2
fi
