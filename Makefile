# make demo   sets up .venv and fills the holes of a built-in table
# make test   sets up .venv and runs everything CI runs
# make peers  sets up the environments of the competing imputers, one each under .peers
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# one thread: two of them on two busy cores can be fifty times slower than one
export OMP_NUM_THREADS ?= 1
ifneq ($(wildcard ../shared/data),)
export VSAE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help setup demo test lint types unit slow bench peers clean

help:
	@grep -E '^# make' Makefile | sed 's/^# //'

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,plots]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/vsae demo

test: lint types unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q  # the variable lets scikit-learn run its last check

slow: $(INSTALLED)
	$(BIN)/python -m pytest -q -m slow

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks scaling --force

peers: $(INSTALLED)
	$(BIN)/python -m benchmarks environments $(PEERS)

clean:
	rm -rf $(VENV) .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis
