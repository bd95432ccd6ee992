#!/bin/sh
# Run the unit tests on every Python from 3.12 on that this machine has, each in an environment of its own.
set -eu
cd "$(dirname "$0")/.."
found=""
for version in 3.12 3.13 3.14; do
    python="$(command -v "python$version" || true)"
    [ -n "$python" ] && "$python" -c '' 2>/dev/null || continue
    found="$found $version"
    "$python" -m venv ".venv-$version"
    ".venv-$version/bin/pip" install --quiet -e '.[dev]'
    ".venv-$version/bin/python" -m pytest -q -n 2 --dist loadfile \
        -m "not e2e and not ssh and not real and not process and not slow"
done
echo "tested on:${found:- no other Python is here}"
