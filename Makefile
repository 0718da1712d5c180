# Two commands do everything: `make demo` and `make test`. Both first create the environment in .venv (once).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

MINUTES := 10
KILLS := 105
WORKERS := 20

.PHONY: env demo test check fuzz torture clean

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

# Hostile inputs for MINUTES, and KILLS of running commands; docs/reliability.md says what they promise.
fuzz: env
	@$(BIN)/python -m tests.reliability.fuzz --minutes $(MINUTES)

torture: env
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.reliability.torture --kills $(KILLS) --workers $(WORKERS)

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache
