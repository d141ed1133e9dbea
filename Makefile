# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-fast test-all lint bench results clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing torch-gsat and what it needs into $(VENV) (a minute or two)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	$(BIN)/gsat demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -q -n 2 --dist loadscope

test-fast: setup
	$(BIN)/pytest -q -n 2 --dist loadscope -m "not slow and not medium"

test-all: lint
	$(BIN)/pytest -q -m ""

bench: setup
	$(BIN)/python -m benchmarks $(BENCH)

results: setup
	$(BIN)/gsat results --page results --write docs/results.md
	$(BIN)/gsat results --page headlines --write README.md
	$(BIN)/gsat results --page claims --write docs/claims.md
	$(BIN)/gsat results --page reproduction --write docs/reproduction.md

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
