#!/bin/sh
# Build the wheel, install it into an empty environment outside the checkout, and run the main job there.
set -eu
root="$(cd "$(dirname "$0")/.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT INT TERM
"$root/.venv/bin/uv" build --quiet --wheel --out-dir "$work/dist" "$root"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$work"/dist/*.whl
cd "$work"
cat >matrix.yaml <<'MATRIX'
name: wheel
model: {path: embedded, served_name: embedded}
hosts: [local]
factors: {algorithm: [ar, dflash], budget: 7, temperature: 0.0, concurrency: 4}
server: {command: ["{python}", -m, specbench.engine], flags: {load-seconds: 0.5}}
workload: {requests: 32, max_tokens: 64}
MATRIX
"$work/venv/bin/specbench" run matrix.yaml
"$work/venv/bin/specbench" report
test -s results/*/tables/trials.csv
test -s results/*/report/findings.html
echo "the wheel works outside the checkout"
