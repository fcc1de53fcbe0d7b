# make setup | demo | test | check | bench | build | formats | clean
# PYTHON chooses the interpreter that .venv is made from.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.everlog-setup
PYX := $(shell find src -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')

.PHONY: setup demo test check bench build formats wheel clean

setup: $(STAMP) build

$(STAMP): pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("everlog needs Python 3.11 or later, found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip 'setuptools>=77' wheel 'Cython>=3.1'
	$(BIN)/pip install --quiet --no-build-isolation --editable '.[dev]'
	@touch $@

build: $(VENV)/.everlog-build

$(VENV)/.everlog-build: $(STAMP) $(PYX) setup.py
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

demo: setup
	$(BIN)/python -m everlog.spark.demo

test: setup
	$(BIN)/python -m pytest -q

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_layouts.py --check

bench: setup
	$(BIN)/python -m benchmarks

formats: setup
	$(BIN)/python tools/generate_layouts.py

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf build dist demo-output src/*.egg-info
	find src -name '*.so' -delete
	find src -name '_*.c' -delete
