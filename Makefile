# make demo: set up, and train on real data with four ranks, twice: once well, once with a failure.
# make test: set up, and run the tests. See CONTRIBUTING.md for the rest.
# make test-long: those that take long (walks through many states, faults by the dozen)
# make test-all: both
# make test-pythons: run the fast tests on the system's own Python, and on the newest one here with
#   the newest version of each dependency
# make test-cluster: set up, and run the tests on real clusters (Debian: slurm-wlm munge iproute2
#   openssh-server)
# make docs: set up, build the documentation site into site/ (a broken link is an error), and look at
#   its pages in a browser (Debian: chromium), if there is one
# make test-package: build what is published, and try it as a user would
# make lock: note the versions that are installed, for all who set up after you
# make bench: set up the peers beside procession, and measure; BENCH="lines tee" or BENCH=--quick
# make chaos: faults by the hundred, and their table in docs/reliability.md; CHAOS=ROW for one row
# make fuzz SECONDS=600: every parser for so long, with whatever may come

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := .ci/install $(BIN)/python test
BENCH_VENV ?= .venv-bench
FRAMEWORKS_VENV ?= .venv-frameworks
# The versions that docs/integrations/frameworks.md was measured with, and later ones.
FRAMEWORKS := 'accelerate>=1.15,<2' 'transformers>=5.23,<6' 'lightning>=2.6,<3' 'torchx>=0.7,<0.8'
# What depends on Python itself: processes, signals, pickles, interpreters that start and end.
SYSTEM := by_value end_launcher inherited interposed rank_environment rank_title result_pipe results ends \
	start_command start_function start_multiprocessing start_script
FAST := tests/unit tests/control tests/faults tests/multiprocessing_face \
	$(SYSTEM:%=tests/system/test_%.py)

.DELETE_ON_ERROR:
.PHONY: demo test test-long test-all test-pythons test-cluster test-frameworks test-package bench chaos \
	fuzz lint format docs lock clean

demo: $(VENV)/.demo
	$(BIN)/procession run -n 4 examples/digits.py
	@echo
	@echo "--- the same job, with rank 2 failing on purpose ---"
	@! $(BIN)/procession run -n 4 examples/digits.py --fail-rank 2
	@echo "--- (it was meant to fail) ---"

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/cluster \
	--ignore tests/frameworks --ignore tests/browser

test: $(VENV)/.test lint
	$(PYTEST) -m 'not long'

test-long: $(VENV)/.test
	$(PYTEST) -m long

test-all: test test-long

test-pythons:
	.ci/pythons $(FAST)

test-cluster: $(VENV)/.cluster
	$(BIN)/python -m pytest tests/cluster tests/chaos/test_rows.py -k 'cluster or [slurm]'

# The real accelerate, transformers, Lightning and TorchX; what is not installed is skipped.
test-frameworks: $(FRAMEWORKS_VENV)/.frameworks
	$(FRAMEWORKS_VENV)/bin/python -m pytest -n 2 -rP -p no:cacheprovider tests/frameworks

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/run.py $(BENCH)
	$(BENCH_VENV)/bin/python benchmarks/table.py --write docs/background/comparison.md

chaos: $(VENV)/.test
	$(BIN)/python -m chaos --write $(CHAOS)

SECONDS ?= 60
fuzz: $(VENV)/.test
	PROCESSION_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest -n 2 -rP tests/fuzz

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/check_prose.py
	$(BIN)/python benchmarks/structure.py --check

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python docs/generate.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	PROCESSION_SITE=$(CURDIR)/site $(BIN)/python -m pytest -q -rs tests/browser

test-package: $(VENV)/.package
	.ci/package

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[examples]'
	@touch $@

# torch and JAX in their CPU builds. A machine for which there are none still runs the other tests.
$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[examples,test,lint]'
	$(INSTALL) torch==2.13.0 \
		|| echo "no torch here: its tests will be skipped"
	$(INSTALL) jax jaxlib \
		|| echo "no JAX here: its tests will be skipped"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[docs,test]'
	@touch $@

$(VENV)/.package: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[package]'
	@touch $@

# Where there is no Ray, its tests are skipped.
$(VENV)/.cluster: $(VENV)/.test
	$(INSTALL) -e '.[ray]' \
		|| echo "no Ray here: its tests will be skipped"
	@touch $@

# torch in its CPU build, as in .venv: one resolution of all, and without it one by one.
$(FRAMEWORKS_VENV)/.frameworks: pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS_VENV)
	.ci/install $(FRAMEWORKS_VENV)/bin/python frameworks -e '.[fast]'
	.ci/install $(FRAMEWORKS_VENV)/bin/python frameworks torch==2.13.0 $(FRAMEWORKS) \
		|| for each in torch==2.13.0 $(FRAMEWORKS); do \
			.ci/install $(FRAMEWORKS_VENV)/bin/python frameworks "$$each" \
				|| echo "no $$each here: its tests will be skipped"; \
		done
	@touch $@

# The peers, in the version that the goals are about; what examples and tests in ranks need.
$(BENCH_VENV)/.bench: pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	.ci/install $(BENCH_VENV)/bin/python test -e '.[examples]' torch==2.13.0 pytest pytest-timeout \
		expecttest psutil
	@touch $@

# After the tests have passed with newer versions: PYTHON's newest, in environments made anew.
lock: $(VENV)/.cluster $(FRAMEWORKS_VENV)/.frameworks
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '^torch==' >.ci/versions/test.txt
	$(FRAMEWORKS_VENV)/bin/python -m pip freeze --exclude-editable | grep -v '^torch==' \
		>.ci/versions/frameworks.txt

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(FRAMEWORKS_VENV) .venv-pythons .pytest_cache .ruff_cache \
		.hypothesis runs site dist
