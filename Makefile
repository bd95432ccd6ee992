# Every target sets up what it needs on a fresh machine (Python 3.11 or newer, make).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo test check fix docs docs-pictures clean bench-load bench-stats

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("specbench needs Python 3.11 or newer; try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

setup: $(VENV)/.ready

demo: setup
	$(BIN)/specbench run experiments/quickstart.yaml --results results/demo

test: setup
	tests/install-system-packages.sh
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not e2e and not ssh"
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "ssh or (e2e and not slow)"
	$(BIN)/python -m pytest -q -m "e2e and slow"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-load: setup
	$(BIN)/python benchmarks/load_bench.py
	$(BIN)/python benchmarks/load_truth.py

# Coverage of the intervals, launches of isolate, a million rows: the figures of the docs.
bench-stats: setup
	$(BIN)/python benchmarks/stats_million.py
	$(BIN)/python benchmarks/stats_isolate.py
	$(BIN)/python benchmarks/stats_million.py

# The pictures of the documentation, from the demo's recording and a run of the tutorial (chromium).
docs-pictures: demo
	$(BIN)/python docs/pictures.py results/demo

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --site-dir site
