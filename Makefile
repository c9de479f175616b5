# make solve   a verified kernel for examples/rmsnorm.py; sets up .venv when it has to
# make test    exactly what CI runs; sets up too
# make test-model   an episode with a real small model in a server of ours; downloads it, takes minutes
# make experiment   trains small models on the corpus and writes docs/results/experiment.md; two hours, goes on where it stopped
# CORPUS=…     a corpus folder for `make experiment`; built and solved where not given
# PYTHON=…     the Python that makes .venv (3.11 or newer)
# TORCH=…      another build of PyTorch: pip arguments instead of the locked build
# ARGS=…       make solve ARGS='my_model.py --target trn1'

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
export PYTHON TORCH
# Another venv's settings must not reach this one.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV PIP_PREFIX PIP_REQUIRE_VIRTUALENV PIP_TARGET PIP_USER

BIN := .venv/bin
ARGS ?= examples/rmsnorm.py --model builtin --target trn2
EXPERIMENT ?= runs/experiment
CODE := src tests scripts $(wildcard benchmarks examples)

# A venv can't move: the folder's path is part of the stamps' name, so a copied checkout makes its own.
empty :=
HERE := $(subst /,-,$(subst $(empty) ,_,$(CURDIR)))
VENV_STAMP := .venv/made$(HERE)
SOLVE_STAMP := .venv/solve$(HERE)
DEV_STAMP := .venv/dev$(HERE)
MODEL_STAMP := .venv/small-model$(HERE)
PACKAGE_STAMP := .venv/package$(HERE)
SOLVE_READY := $(SOLVE_STAMP) $(PACKAGE_STAMP)
READY := $(SOLVE_READY) $(DEV_STAMP)

.PHONY: help setup solve test test-model experiment check types lint wheel fix docs baseline lock clean

help:
	@sed -n 's/^# \(make\)/\1/p; s/^# \([A-Z]*=\)/  \1/p' Makefile
	@echo "also: make setup check fix docs baseline lock clean"

setup: $(READY)
	@echo "set-up: .venv is ready" >&2

$(VENV_STAMP):
	@scripts/setup.sh venv
	@touch $@

$(SOLVE_STAMP): $(VENV_STAMP) requirements/solve.lock $(wildcard requirements/*torch*.lock) requirements/cuda.lock
	@scripts/setup.sh solve
	@touch $@

$(DEV_STAMP): $(SOLVE_STAMP) requirements/dev.lock
	@scripts/setup.sh dev
	@touch $@

$(MODEL_STAMP): $(DEV_STAMP) requirements/small-model.lock
	@scripts/setup.sh small-model
	@touch $@

$(PACKAGE_STAMP): $(SOLVE_STAMP) pyproject.toml
	@scripts/setup.sh package
	@touch $@

solve: $(SOLVE_READY)
	@$(BIN)/nki-agent solve $(ARGS)

lint: $(READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/vulture
	$(BIN)/typos
	$(BIN)/lint-imports --no-logo

types: $(READY)
	$(BIN)/mypy src tests scripts $(wildcard benchmarks)

check: lint types

wheel: $(READY)
	@scripts/check_wheel.sh

test: check wheel
	$(BIN)/python -m pytest -n 2 --cov
	$(BIN)/python scripts/check_coverage.py

test-model: $(READY) $(MODEL_STAMP)
	$(BIN)/python -m pytest -m slow tests/llm/test_hosted.py

experiment: $(READY) $(MODEL_STAMP)
	$(BIN)/python -m benchmarks.experiment --out $(EXPERIMENT) $(if $(CORPUS),--corpus $(CORPUS))
	$(BIN)/python -m benchmarks.experiment.second --out $(EXPERIMENT)
	$(BIN)/python -m benchmarks.experiment.report $(EXPERIMENT)

fix: $(READY)
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

baseline: $(SOLVE_READY)
	$(BIN)/python scripts/freeze_baseline.py

docs: $(SOLVE_READY)
	$(BIN)/python scripts/make_reference.py

# uv only resolves; pip installs. ARGS='--upgrade' moves every pin.
lock: UV := $(shell mktemp -d)
lock: $(VENV_STAMP)
	@$(BIN)/python -m venv $(UV)
	@$(UV)/bin/python -m pip --disable-pip-version-check install --quiet uv==0.13.9
	@$(UV)/bin/python scripts/make_locks.py $(if $(filter command line,$(origin ARGS)),$(ARGS))
	@rm -rf $(UV)

clean:
	rm -rf .venv build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
