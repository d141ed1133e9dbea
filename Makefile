# Two commands on a fresh machine: `make demo` and `make test`.
#
# On Linux, the default build of torch brings several gigabytes of CUDA along. For the CPU build, set
# PIP_EXTRA_INDEX_URL to PyTorch's index of CPU wheels.
PYTHON ?= python3
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.installed-core
DEV    := $(VENV)/.installed-dev
PIP    := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/pytest -q -n $(JOBS) --dist worksteal --durations=25

.PHONY: setup demo test test-raw test-fast test-all lint build bench campaign campaign-web results clean

# What the demo needs: the package and its core dependencies.
$(CORE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "== creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing torch-gsat and its core dependencies into $(VENV) (a minute or two)"
	$(PIP) -e .
	@touch $@

# What the tests need: every extra, and the tools.
$(DEV): $(CORE)
	@echo "== installing the extras, test and lint tools into $(VENV) (a minute or two)"
	$(PIP) -e '.[dev]'
	@echo "== compiling the kernels, once per machine (a minute or two)"
	$(BIN)/gsat warm-up
	@touch $@

setup: $(DEV)

demo: $(CORE)
	@echo "== running the demo"
	$(BIN)/gsat warm-up
	$(BIN)/gsat demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(PYTEST)

# The tests that need raw data files (GSAT_DATA) only.
test-raw: $(DEV)
	$(PYTEST) -m "raw_data and not slow"

test-fast: $(DEV)
	$(PYTEST) -m "not slow and not medium"

# One process: slow tests share the data sets that others have built.
test-all: lint
	$(BIN)/pytest -q --durations=25 -m ""

build: $(DEV)
	$(BIN)/python -m build

bench: $(DEV)
	$(BIN)/python -m benchmarks $(BENCH)

# Faults while saving, hostile files, fuzzing: some ten minutes. Figures go to results/campaign.json.
campaign: $(DEV)
	$(BIN)/python -m campaign $(CAMPAIGN)

# The API against its own description: some 2 000 requests, a few minutes.
campaign-web: $(DEV)
	GSAT_SCHEMA_CASES=130 GSAT_SCHEMA_RECORD=results/campaign.json \
		$(BIN)/pytest -q -s -n0 tests/web/test_web_schema.py

results: $(DEV)
	$(BIN)/python -m paper results --all

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
