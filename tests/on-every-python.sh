#!/bin/sh
# Run the unit tests on every other Python that is on the PATH and runs, each in an environment of
# its own; say which were left out. (pyenv: PYENV_VERSION=3.12.1:3.13.0 puts them on the PATH.)
set -eu
cd "$(dirname "$0")/.."
found=""
skipped=""
failed=""
for version in 3.12 3.13 3.14; do
    python="$(command -v "python$version" || true)"
    if [ -z "$python" ]; then
        skipped="$skipped $version (not on the PATH)"
        continue
    fi
    if ! "$python" -c '' 2>/dev/null; then
        skipped="$skipped $version ($python does not run)"
        continue
    fi
    "$python" -m venv ".venv-$version"
    ".venv-$version/bin/pip" install --quiet -e '.[dev]'
    if ".venv-$version/bin/python" -m pytest -q -n 2 --dist loadfile \
        -m "not e2e and not ssh and not real and not process and not slow"; then
        found="$found $version"
    else
        failed="$failed $version"
    fi
done
echo "passed on:${found:- none}; failed on:${failed:- none}; left out:${skipped:- none}"
[ -z "$failed" ]
