# Two commands on a fresh machine: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: setup demo spark-demo check test test-all test-rest test-slow test-light lint format screenshots bench bench-peers experiments clean

# The demo needs a fifth of what the tests need: it has a stamp of its own.
$(VENV)/.demo: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "driftline needs Python 3.11 or newer")'
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) '.[serve]'
	@touch $@

$(VENV)/.installed: $(VENV)/.demo
	$(PIP) '.[dev]'
	touch $@

setup: $(VENV)/.installed

demo: $(VENV)/.demo
	@$(BIN)/driftline demo

# 200 shops on Spark, on two cores; needs Java 17
spark-demo: setup
	OMP_NUM_THREADS=1 $(BIN)/python examples/spark_shops.py

# Two test processes of one thread each are faster than one process of two.
check test test-all test-rest test-slow test-light: export OMP_NUM_THREADS := 1
# Containers often set this, and then pytest compiles every test anew in every run.
check test test-all test-rest test-slow test-light: export PYTHONDONTWRITEBYTECODE :=

# A minute: linters beside doctests and the packages whose tests are pure functions of numbers and words
UNITS := src $(addprefix tests/,alarms fitting inference sources synthetic tables terminal) \
	$(patsubst %,tests/test_%.py,errors exports files house inputs overflow roots wording)
check: setup
	$(MAKE) --no-print-directory lint & lint=$$!; \
	$(PYTEST) -q -m 'not full and not slow' $(UNITS); tests=$$?; wait $$lint && exit $$tests

# Four minutes: all behaviour, one seed each; a test without a mark may take 1.5 s
test: setup
	$(PYTEST) -m 'not full and not slow' --longest 1.5

# What make test leaves out: further seeds, experiments, browsers, JVM, kills
test-rest: setup
	$(PYTEST) -m 'full and not slow'

test-all: test test-rest

# Replicate studies, hours; then new random examples for the tests that Hypothesis feeds
test-slow: setup
	$(PYTEST) -m slow
	$(PYTEST) -m 'not slow' --hypothesis-profile explore $$(grep -rl 'from hypothesis import' tests --include 'test_*.py')

# Base and [monitor] in an environment without PyTorch and matplotlib; tests/light.py says what must run there
LIGHT := .venv-light
$(LIGHT)/.installed: pyproject.toml
	test -x $(LIGHT)/bin/python || $(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[light]'
	touch $@

test-light: $(LIGHT)/.installed
	$(LIGHT)/bin/python -m pytest -p tests.light -m 'not full and not slow and not networks and not figures' -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pictures of README and docs, taken from the running program; needs chromium
screenshots: setup
	$(BIN)/python docs/screenshots.py

bench: setup
	$(BIN)/python -m benchmarks

# alibi-detect's online detectors on the same streams, in an environment of their own; about an hour and a half
PEERS := .venv-peers
bench-peers:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'alibi-detect==0.13.*' 'torch>=2.6,<2.14'
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m benchmarks.alibi_online --out benchmarks/peers.json

# the paper's synthetic experiments at their quick scale, about half an hour of one core; DRIFTLINE_DATA names the folder with the electricity table
experiments: setup
	$(BIN)/python -m experiments all --scale quick

clean:
	rm -rf $(VENV) $(LIGHT) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
