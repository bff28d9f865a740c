# make demo: set up, and train on real data with four ranks, twice: once well, once with a failure.
# make test: set up, and run all tests.  See CONTRIBUTING.md for the rest.
# make test-cluster: set up, and run the tests on real clusters (Debian: slurm-wlm munge iproute2)
# make bench: set up the peers beside procession, and measure; BENCH="lines tee" or BENCH=--quick

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BENCH_VENV ?= .venv-bench

.DELETE_ON_ERROR:
.PHONY: demo test test-cluster bench lint format docs clean

demo: $(VENV)/.demo
	$(BIN)/procession run -n 4 examples/digits.py
	@echo
	@echo "--- the same job, with rank 2 failing on purpose ---"
	@! $(BIN)/procession run -n 4 examples/digits.py --fail-rank 2
	@echo "--- (it was meant to fail) ---"

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/cluster

test-cluster: $(VENV)/.cluster
	$(BIN)/python -m pytest tests/cluster

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/run.py $(BENCH)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python docs/draw_lifecycle.py --check
	$(BIN)/python docs/write_events_schema.py --check

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python docs/draw_lifecycle.py
	$(BIN)/python docs/write_events_schema.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples]'
	@touch $@

# torch and JAX in their CPU builds. A machine for which there are none still runs the other tests.
$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples,test,lint]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 \
		|| echo "no torch here: its tests will be skipped"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check jax jaxlib \
		|| echo "no JAX here: its tests will be skipped"
	@touch $@

# Where there is no Ray, its tests are skipped.
$(VENV)/.cluster: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[ray]' \
		|| echo "no Ray here: its tests will be skipped"
	@touch $@

# The peers, in the version that the goals are about. numpy, because torch looks for it.
$(BENCH_VENV)/.bench: pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e . \
		torch==2.13.0 numpy
	@touch $@

clean:
	rm -rf $(VENV) $(BENCH_VENV) .pytest_cache .ruff_cache .hypothesis runs
