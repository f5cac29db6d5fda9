# make demo    sets up .venv and fills the missing cells of a built-in table
# make test    sets up .venv and runs everything CI runs: ruff, mypy, pytest with doctests
# make docs    makes the site of docs/ in build/docs; warnings are errors
# make slow    runs the tests that train for minutes
# make oldest  runs the tests on the oldest versions that pyproject.toml allows
# make wheel   builds the wheel, installs it into an empty environment and runs its demo there
# make attack  attacks the library for an hour or two: forged models, kills, full disks, odd input
# make peers   sets up the environments of the competing imputers, one each under .peers
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# compiled when first imported, which is sooner than all of it now
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
# the variable lets scikit-learn run its last check
PYTEST := SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10

# one thread a process: two of them on two busy cores can be fifty times slower than one
export OMP_NUM_THREADS ?= 1
ifneq ($(wildcard ../shared/data),)
export VSAE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: help setup demo test lint types unit docs slow oldest wheel bench attack peers clean

help:
	@grep -E '^# make' Makefile | sed 's/^# //'

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c $(CONSTRAINTS) -e '.[dev]'
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
	$(PYTEST)

docs: $(INSTALLED)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --jobs auto docs build/docs
	@echo 'open build/docs/index.html'

slow: $(INSTALLED)
	$(PYTEST) -m slow

oldest:
	$(MAKE) unit VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

wheel: $(INSTALLED)
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	! $(BIN)/python -m zipfile --list dist/*.whl | grep bench
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python $(INSTALL) -c constraints.txt dist/*.whl
	.venv-wheel/bin/vsae demo

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks scaling --force

attack: $(INSTALLED)
	$(BIN)/python -m benchmarks attack --force

peers: $(INSTALLED)
	$(BIN)/python -m benchmarks environments $(PEERS)

clean:
	rm -rf $(VENV) .venv-oldest .venv-wheel dist build .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis
