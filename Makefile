# Every target sets up what it needs on a fresh machine (Python 3.11 or newer, make).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup audit system-packages demo unit test test-real coverage test-lowest test-pythons wheel check fix docs \
	docs-pictures bench-load bench-stats bench-attacks

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("specbench needs Python 3.11 or newer; try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

setup: $(VENV)/.ready

demo: setup
	$(BIN)/specbench run experiments/quickstart.yaml --results results/demo

# The default loop while developing: no process is started (a test that does fails), under a minute.
unit: setup
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not e2e and not ssh and not real and not process and not slow"

# Debian packages that tests need (tests/system-packages.txt); without root it says which are missing.
system-packages:
	tests/install-system-packages.sh

test: setup system-packages
	$(BIN)/python -m tests.testhosts.lab
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not e2e and not ssh and not real"
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "ssh or (e2e and not slow)"
	$(BIN)/python -m pytest -q -m "e2e and slow"

# Installs real SGLang, vLLM and llama.cpp servers for a CPU (8 GB, up to an hour the first time),
# drives them from end to end, and writes the page of the docs that tells the outcome.
test-real: setup
	tests/real/install.sh
	$(BIN)/python -m pytest -q -m real tests/real
	$(BIN)/python -m tests.real.page

# Branch coverage of the pure layers, with a floor.
coverage: setup
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not e2e and not ssh and not real and not process" \
		--cov --cov-report=term --cov-fail-under=92

# The lowest versions of the dependencies that pyproject.toml allows.
test-lowest: setup
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 pyproject.toml -o $(VENV)/lowest.txt
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/pip install --quiet --constraint $(VENV)/lowest.txt -e '.[dev]'
	$(VENV)-lowest/bin/python -m pytest -q -n 2 --dist loadfile -m "not e2e and not ssh and not real and not process and not slow"

# The unit tests on every other Python that is on the PATH.
test-pythons: setup
	tests/on-every-python.sh

# The built wheel, installed outside the checkout, runs a small demo there.
wheel: setup
	tests/wheel.sh

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/towncrier build --draft --version next >/dev/null

# Known advisories against the lowest and the newest versions of the dependencies. Not part of check:
# it needs a database of advisories, and says so (status 3) where none can be reached.
audit: setup
	.ci/audit

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python docs/schemas.py

bench-load: setup
	$(BIN)/python benchmarks/load_bench.py
	$(BIN)/python benchmarks/load_truth.py

# Recordings damaged in every way, and commands killed at random instants (an hour).
bench-attacks: setup
	$(BIN)/python -m benchmarks.mutations
	$(BIN)/python -m benchmarks.kills

# Coverage of the intervals, launches of isolate, a million rows: the figures of the docs. The last
# one measures servers, so nothing else may run on the machine meanwhile.
bench-stats: setup
	$(BIN)/python benchmarks/stats_compare.py --docs
	$(BIN)/python benchmarks/stats_isolate.py
	$(BIN)/python benchmarks/stats_million.py
	$(BIN)/python benchmarks/real_aa.py --docs

# The pictures of the documentation, from the demo's recording and a run of the tutorial (chromium).
docs-pictures: demo
	$(BIN)/python docs/pictures.py results/demo

docs: setup
	$(BIN)/python docs/schemas.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site
