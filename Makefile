# What each target does stands behind its name; `make` alone lists them.
# Needs Python 3.11 or later, make and a shell; PYTHON chooses the Python.

VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/fencepost-setup
PG15_BIN ?= /usr/lib/postgresql/15/bin
PYTEST := $(BIN)/python -m pytest
CODE := fencepost worker dashboard migrations tests scripts benchmarks examples
PEERS := $(VENV)/peers
# Tests that kill processes and tests with a browser want a process of their own for each folder.
APART := tests/chaos tests/acceptance
BROWSER := tests/browser
# Of those with a browser, what shows most in a few seconds.
GLANCE := $(BROWSER)/test_policy.py $(BROWSER)/test_pages.py
CHROMIUM := @sh scripts/program.sh chromium chromium-browser google-chrome google-chrome-stable
# Tests whose hosts are network namespaces, which only root can make.
HOSTS := tests/hosts
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo -E env PYTHONDONTWRITEBYTECODE=1)
# What a worker does at the worst moments must not depend on what it sends with.
ALSO_WITH_CURL := tests/chaos/test_crashes.py tests/acceptance/test_split_brain.py tests/postgres/test_worker.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-pg15 browser screenshots lint format docs constraints bench

help:
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

setup: $(SETUP) ## .venv with Fencepost, editable, and all its extras

$(SETUP): pyproject.toml constraints.txt fencepost/__init__.py scripts/setup.sh
	@PYTHON='$(PYTHON)' sh scripts/setup.sh $(VENV)
	@touch $@

demo: setup ## run everything on an embedded PostgreSQL, with receivers and traffic
	@$(BIN)/fencepost demo

test: setup ## every test but those of `make browser`, PostgreSQL, PgBouncer and a real Chromium included
	$(CHROMIUM)
	@sh scripts/program.sh pgbouncer
	$(PYTEST) -n auto --maxprocesses 4 --dist loadgroup $(addprefix --ignore=,$(APART) $(BROWSER) $(HOSTS))
	$(foreach folder,$(wildcard $(APART)),$(PYTEST) $(folder) &&) true
	$(PYTEST) $(GLANCE)
	$(AS_ROOT) $(PYTEST) -p no:cacheprovider $(HOSTS)
	TEST_TRANSPORT=curl $(PYTEST) -n auto --maxprocesses 4 $(ALSO_WITH_CURL)

test-pg15: setup ## the tests on PostgreSQL again, on the oldest version that is supported
	TEST_PG_BIN='$(PG15_BIN)' $(PYTEST) -n auto --maxprocesses 4 --dist loadgroup tests/postgres

browser: setup ## what the dashboard promises, in a real Chromium, and axe-core on every page
	$(CHROMIUM)
	@sh scripts/program.sh curl
	$(PYTEST) $(BROWSER)

screenshots: setup ## every page in both themes, 1280 and 320 pixels wide, into screenshots/
	$(CHROMIUM)
	$(PYTEST) $(BROWSER)/gallery.py

lint: setup ## ruff, mypy, import contracts, spelling, templates
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell $(CODE) templates static Makefile .ci $(wildcard *.md docs/*.md)
	$(BIN)/djlint --quiet --lint templates

format: setup ## what ruff can mend by itself
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

docs: setup ## write the README's diagram and settings table anew
	$(BIN)/python scripts/readme.py

bench: setup $(PEERS)/bin/celery ## how fast it is, beside others, into docs/benchmarks.md; FULL=1 takes hours
	PEERS_PYTHON='$(abspath $(PEERS))/bin/python' $(BIN)/python benchmarks/report.py $(if $(FULL),--full)

$(PEERS)/bin/celery: benchmarks/requirements.txt
	@$(BIN)/python -m venv $(PEERS)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(PEERS)/bin/python -m pip install --quiet -r $<
	@touch $@

constraints: ## pin the newest versions of everything
	@PYTHON='$(PYTHON)' sh scripts/constraints.sh constraints.txt
