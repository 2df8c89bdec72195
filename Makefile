# One command sets up whatever it needs: `make demo`, `make test` and `make check` work from a fresh clone.

PYTHON ?= python3
VENV ?= .venv
# One file per worker at a time, each worker single-threaded: two cores, two tests.
PYTEST_ARGS ?= -n 2 --dist loadfile

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
JAVASCRIPT := tests/views/explorer/lint
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

.DEFAULT_GOAL := help
.PHONY: help install demo check lint lint-js format format-check types imports test test-fast test-all test-oldest docs gallery bench clean

help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## Create the virtual environment and install the package for development

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# __init__.py holds the version, which the installed metadata repeats.
$(INSTALLED): setup.cfg pyproject.toml constraints.txt bivshap_lightning/__init__.py | $(BIN)/python
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(INSTALLED)  ## Train, audit and judge a classifier of wines; everything goes to bivshap_demo/
	$(BIN)/bivshap demo

check: lint lint-js format-check types imports docs test  ## Everything: lint, format, types, import contracts, the site, tests and doctests

lint: $(INSTALLED)  ## Lint with ruff
	$(BIN)/ruff check .

# Node is no part of the set-up: where npm or its registry is missing, this says so and goes on.
lint-js:  ## Lint the explorer's JavaScript and check its types, where npm is there
	@if npm install --prefix $(JAVASCRIPT) --no-audit --no-fund --no-package-lock --silent 2>/dev/null; then \
		npm run --prefix $(JAVASCRIPT) --silent check && echo "The explorer's JavaScript passes eslint and tsc."; \
	else \
		echo "The explorer's JavaScript is not checked: npm, or its registry, cannot be reached."; \
	fi

format: $(INSTALLED)  ## Rewrite the files in the house format
	$(BIN)/ruff format .

format-check: $(INSTALLED)  ## Fail if a file is not in the house format
	$(BIN)/ruff format --check .

types: $(INSTALLED)  ## Check the types of the package with mypy, strictly
	$(BIN)/mypy

imports: $(INSTALLED)  ## Check which part of the package may import which (contracts in pyproject.toml)
	$(BIN)/lint-imports

test: $(INSTALLED)  ## Run the tests and doctests
	$(PYTEST) -m "not exhaustive"

test-all: $(INSTALLED)  ## Run all tests: also soaks, the full fault matrix and the heaviest examples
	$(PYTEST)

test-fast: $(INSTALLED)  ## Run the tests, leaving out the slow ones and those that need a browser
	$(PYTEST) -m "not slow and not browser and not exhaustive"

# An environment of its own: the oldest versions that setup.cfg allows.
test-oldest:  ## Run the fast tests on the oldest supported versions (constraints-oldest.txt), in .venv-oldest
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --disable-pip-version-check -c constraints-oldest.txt -e ".[dev]"
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n 2 --dist loadfile -W default \
		-m "not slow and not browser and not exhaustive" tests

# Strict: a link or reference that leads nowhere, or a public name without a docstring, fails.
docs: $(INSTALLED)  ## Build the site into build/docs; open build/docs/index.html
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html -d build/doctrees docs build/docs
	@echo "open build/docs/index.html"

gallery: $(INSTALLED)  ## Run the examples of the gallery and renew the site's pictures and printed results
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.make_gallery

# `make bench BENCH_ARGS=--quick`; single parts by name, such as `python -m benchmarks.bench_accuracy`.
bench: $(INSTALLED)  ## Run the benchmarks of the estimators; BENCH_ARGS="--quick --write" for less, and for RESULTS.md
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:  ## Remove the environment, caches and build products
	rm -rf $(VENV) .venv-oldest $(JAVASCRIPT)/node_modules build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find bivshap_lightning tests $(wildcard examples benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
