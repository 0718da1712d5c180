# Two commands do everything: `make demo` and `make test`. Both first create the environment in .venv (once).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: env demo test check clean

env: $(VENV)/installed

# constraints.txt pins exact versions; torch comes first because an unbounded torch would bring a CUDA build of several GB.
$(VENV)/installed: pyproject.toml constraints.txt
	@echo "make: creating the environment in $(VENV) (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "make: cannot create a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: env
	@$(BIN)/fastmos demo

test: check
	@echo "make: running the tests"
	@$(BIN)/python -m pytest -n 2 tests

check: env
	@echo "make: ruff and mypy"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache
