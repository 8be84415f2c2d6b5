# What a developer types. Python 3.11 or later, make, a shell and a package index are needed: the environment is .venv,
# made by pip from the hashes in requirements.txt, to which requirements-dev.txt adds what tests and checks need.

.SHELLFLAGS := -euc
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
# The first that runs and is new enough; a name on PATH may be a shim with nothing behind it.
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
FIND_PYTHON = for python in $(PYTHONS); do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; exit; }; done; \
	echo "make: Python 3.11 or later is needed; tried $(PYTHONS)" >&2; exit 1

# What pip says is kept: without a network it is a page of tries, of which a person needs one sentence.
PIP_LOG := $(VENV)/pip.log
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# By all processors; pip has one. What does not compile is for other versions of Python, and nobody imports it.
COMPILE = $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
PIP_FAILED = { echo "make: the packages could not be downloaded or installed; why is in $(PIP_LOG)" >&2; exit 1; }
EXPORT = uv export --quiet --frozen --format requirements-txt --no-header --no-annotate --no-emit-project

# Most tests wait for most of their time: on two cores, four processes left a quarter of the processors idle.
PYTEST = $(BIN)/python -m pytest -p tests.durations -p tests.broken_runs -p tests.second_try --numprocesses=6 --dist=loadgroup --no-loadscope-reorder $(TESTS)

.PHONY: help up down test test-all nightly planted chaos differential conformance lint bench protos requirements check-requirements sbom venv

help: ## list the targets
	@sed -nE "s/^([a-z-]+):.*## (.*)/  \1|\2/p" Makefile | awk -F"|" '{ printf "%-16s%s\n", $$1, $$2 }'

up: $(RUNNABLE) ## a Temporal dev server, a runtime, a worker and the example pod
	@$(BIN)/syncpod up -f examples/pod.yaml

down: $(RUNNABLE) ## delete the pods, and end all that up has started
	@$(BIN)/syncpod down

test: $(INSTALLED) ## the tests; TESTS=tests/cri for some of them
	@$(PYTEST)

test-all: $(INSTALLED) ## every test on every runtime that it can run on
	@SYNCPOD_RUNTIMES=all $(PYTEST)

nightly: $(INSTALLED) ## test-all, with 20,000 simulated pods and more drawn examples
	@SYNCPOD_RUNTIMES=all SYNCPOD_NIGHTLY=1 $(PYTEST) --timeout=3600

# Tests start Python several hundred times: bytecode is kept for them, also where it has been turned off.
test test-all nightly: export PYTHONDONTWRITEBYTECODE =

planted: $(INSTALLED) ## planted bugs, an hour and more: does the suite find each? BUGS=names for some of them
	@$(BIN)/python -m qa.planted $(BUGS)

chaos: $(INSTALLED) ## ten minutes of faults, judged by what containers note; CHAOS="--runtime containerd16 --seed 7"
	@$(BIN)/python -m qa.chaos --minutes 10 $(CHAOS)

differential: $(INSTALLED) ## the same manifests on a kubelet and on a node of ours; SCENARIOS="probe/* hook/*" for some
	@$(BIN)/python -m qa.differential $(SCENARIOS)

conformance: $(INSTALLED) ## Kubernetes' own tests of a node, 141 of them; CONFORMANCE="--node kubelet" for the kubelet's result
	@$(BIN)/python -m qa.conformance $(CONFORMANCE)

lint: $(INSTALLED) check-requirements ## style, types, who imports whom, generated files
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m protos.generate --check

bench: $(INSTALLED) ## one table of ratios against the bare CRI calls
	@$(BIN)/python -m bench

protos: $(INSTALLED) ## generate the CRI modules from protos/
	@$(BIN)/python -m protos.generate

requirements: ## export uv.lock for pip
	$(EXPORT) --no-dev -o requirements.txt >/dev/null
	$(EXPORT) --all-groups -o requirements-dev.txt >/dev/null

check-requirements: # what pip installs is what uv.lock says; only where uv is at hand
	@if command -v uv >/dev/null; then \
		uv lock --quiet --check --offline && \
		$(EXPORT) --no-dev | cmp - requirements.txt && \
		$(EXPORT) --all-groups | cmp - requirements-dev.txt || \
		{ echo "make: uv.lock or its export is out of date: uv lock && make requirements" >&2; exit 1; }; \
	fi

sbom: ## what an installation has, with hashes, in dist/sbom.cdx.json (CycloneDX)
	@mkdir -p dist
	@python=$$($(FIND_PYTHON)); "$$python" deploy/sbom.py > dist/sbom.cdx.json
	@echo dist/sbom.cdx.json

venv: $(INSTALLED) ## the environment in .venv

$(RUNNABLE): requirements.txt pyproject.toml
	@echo "make: making the environment in $(VENV) (once; a minute or two)" >&2
	@[ -x $(BIN)/python ] || { python=$$($(FIND_PYTHON)); "$$python" -m venv $(VENV); }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip
	@$(PIP) --require-hashes -r requirements.txt >$(PIP_LOG) 2>&1 || $(PIP_FAILED)
	@$(PIP) --no-deps -e . >$(PIP_LOG) 2>&1 || $(PIP_FAILED)
	@$(COMPILE)
	@touch $@

$(INSTALLED): requirements-dev.txt $(RUNNABLE)
	@echo "make: adding to $(VENV) what tests and checks need (once)" >&2
	@$(PIP) --require-hashes -r requirements-dev.txt >$(PIP_LOG) 2>&1 || $(PIP_FAILED)
	@$(COMPILE)
	@touch $@
