# Two commands on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo spark-demo test test-slow test-light lint format bench bench-peers experiments clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "driftline needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/driftline demo

# 200 shops on Spark, on two cores; needs Java 17
spark-demo: setup
	OMP_NUM_THREADS=1 $(BIN)/python examples/spark_shops.py

# two test processes, one thread each, beat two threads in each
test test-slow test-light: export OMP_NUM_THREADS := 1
# containers often forbid Python to keep what it has compiled: pytest would compile all tests, and some packages, each time
test test-slow test-light: export PYTHONDONTWRITEBYTECODE :=

test: setup
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist worksteal

test-slow: setup
	$(BIN)/python -m pytest -m slow -n 2 --dist worksteal

# base and [monitor] in an environment without PyTorch and matplotlib; tests/light.py says what must run there
LIGHT := .venv-light
$(LIGHT)/.installed: pyproject.toml
	test -x $(LIGHT)/bin/python || $(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[light]'
	touch $@

test-light: $(LIGHT)/.installed
	$(LIGHT)/bin/python -m pytest -p tests.light -m 'not slow and not networks and not figures' -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks

# alibi-detect's online detectors on the same streams, in an environment of their own; about an hour and a half
PEERS := .venv-peers
bench-peers:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'alibi-detect==0.13.*' 'torch>=2.6,<2.14'
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m benchmarks.alibi_online --out benchmarks/peers.json

# the paper's synthetic experiments at their quick scale, about half an hour; DRIFTLINE_DATA names the folder with the electricity table
experiments: setup
	$(BIN)/python -m experiments all --scale quick

clean:
	rm -rf $(VENV) $(LIGHT) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
