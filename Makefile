# Everything runs from one virtual environment, made on first use and kept.
# Change these on the command line: make test WORKERS=8
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
WORKERS ?= 2
BENCH ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --no-compile --constraint $(CONSTRAINTS)
# One thread for each worker, but two where kernels share their work (tests/conftest.py). Threads
# that have nothing to do sleep: if they spun, two workers of two threads would wait for one another.
THREADS ?= 2
SLEEP := OMP_WAIT_POLICY=passive
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(SLEEP) GATTN_TEST_THREADS=$(THREADS) \
  $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
# The tests of the kernels, whose threads are the process's from its start.
KERNEL_TESTS := tests/ops tests/sampling tests/nn
CPP := $(wildcard gattn/kernels/cpu/*.cpp gattn/kernels/cpu/*.h)
KERNELS := $(CPP) gattn/kernels/cpu/CMakeLists.txt

# The tables that examples/imports.py writes.
DEMO := runs/demo/imports.csv --nodes runs/demo/modules.csv

# What `make quick` runs, a file or a few for each promise.
QUICK := tests/test_architecture.py tests/test_public_api.py tests/test_readme.py \
  tests/test_theorem.py tests/nn/test_every_conv.py tests/test_conversion.py \
  tests/graph/test_graph.py tests/test_graphs.py \
  tests/ops/test_every_operator.py tests/ops/test_numerics.py tests/ops/test_determinism.py \
  tests/ops/registration/test_errors.py \
  tests/data/test_molecules.py tests/data/test_pickle.py tests/data/test_splits.py

.PHONY: help demo quick test slow check coverage threads versions sanitize lint format bench docs sdist wheels tagged clean

help:
	@echo "make demo    install, and train attention on a network that every installation has"
	@echo "make quick   install and run a file or two of tests for each promise: a minute"
	@echo "make test    install and run the tests, doctests and examples"
	@echo "make slow    the tests of more than ten seconds each: Triton's interpreter, builds, exports"
	@echo "make check   the tests and the slow ones in one run"
	@echo "make coverage the tests, and the lines of gattn/ that they do not reach"
	@echo "make threads the kernels' tests with two threads, by themselves and under the sanitizers"
	@echo "make versions TORCH=2.10.0  the tests with another PyTorch, and the Triton that it brings;"
	@echo "             PYG=2.7.0 changes PyTorch Geometric too"
	@echo "make lint    format check, lint, types, import order"
	@echo "make bench   measure against PyTorch Geometric (BENCH='--list' shows the cases)"
	@echo "make docs    build the documentation into site/"
	@echo "make format  rewrite the sources as make lint wants them"
	@echo "make sdist   the source distribution, into dist/"
	@echo "make wheels  wheels for this system and every Python, into dist/ (on Linux: needs Docker)"
	@echo "make tagged TAG=v0.1.0  whether a tag is this version's, and the changelog tells of it"
	@echo "make sanitize  the operators' tests on kernels with AddressSanitizer and UBSan"
	@echo "make clean   remove the environment and everything built"

demo: $(VENV)/nodes.stamp
	@echo "1 of 2: reading which module of SymPy imports which, ten seconds"
	$(BIN)/python examples/imports.py --out runs/demo
	@echo "2 of 2: four trainings of attention along these imports, and three baselines: half a minute"
	$(BIN)/gattn nodes train $(DEMO) --label part --split random-per-class --runs 4 --out runs/demo/run
	@echo
	@echo "A picture of the network:  runs/demo/run/plots/network.png"
	@echo "All that was found:        runs/demo/run/report.html"
	@echo "Next, predict every node:  $(BIN)/gattn nodes predict runs/demo/run $(DEMO) --out runs/demo/predicted.csv"
	@echo "and put your own network in the place of these two tables."

quick: $(VENV)/dev.stamp
	$(PYTEST) -m "not slow" $(QUICK)

test: $(VENV)/dev.stamp
	$(PYTEST) -m "not slow"

slow: $(VENV)/dev.stamp
	$(PYTEST) -m slow

# One run imports and collects once, and small tests fill the time at the end of the slow ones.
check: $(VENV)/dev.stamp
	$(PYTEST)

coverage: $(VENV)/dev.stamp
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

threads: $(VENV)/dev.stamp
	OMP_NUM_THREADS=$(THREADS) MKL_NUM_THREADS=$(THREADS) $(SLEEP) $(BIN)/python -m pytest -q $(KERNEL_TESTS)
	$(MAKE) sanitize

versions:
	sed -e 's/^torch==.*/torch==$(TORCH)/' -e '/^triton==/d' \
	  $(if $(PYG),-e 's/^torch-geometric==.*/torch-geometric==$(PYG)/') constraints.txt > .venv-$(TORCH).txt
	$(MAKE) test VENV=.venv-$(TORCH) CONSTRAINTS=.venv-$(TORCH).txt

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(CPP)
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(CPP)

bench: $(VENV)/gattn.stamp
	$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/dev.stamp
	$(BIN)/mkdocs build --strict

sdist: .venv-release/stamp
	.venv-release/bin/python -m build --sdist --outdir dist

wheels: .venv-release/stamp
	.venv-release/bin/python -m cibuildwheel --output-dir dist

tagged:
	@grep -qx '__version__ = "$(TAG:v%=%)"' gattn/__init__.py || \
	  { echo "the tag $(TAG) is not the version of gattn/__init__.py"; exit 1; }
	@grep -q '^## \[$(TAG:v%=%)\] - ' CHANGELOG.md || \
	  { echo "CHANGELOG.md has no section of $(TAG:v%=%)"; exit 1; }

$(VENV)/gattn.stamp: $(VENV)/nodes.stamp
	$(INSTALL) --only-deps --no-build-isolation ".[molecules]"
	touch $@

# Two pips side by side: the kernels are compiled while PyTorch is unpacked. Python compiles what is
# imported when it is imported, which is a fraction of what is installed.
$(VENV)/nodes.stamp: $(CONSTRAINTS) pyproject.toml $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	  "gattn needs Python 3.10 or newer, got " + sys.version.split()[0] + ": make PYTHON=...")'
	@echo "Installing PyTorch and gattn into $(VENV): three minutes, pip is silent meanwhile"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(MAKE) --no-print-directory -j 2 $(VENV)/torch.stamp $(VENV)/kernels.stamp
	$(INSTALL) --only-deps --no-build-isolation ".[nodes]"
	touch $@

# torch comes first and pinned: a package that asks for any torch must find this one in place.
$(VENV)/torch.stamp: $(CONSTRAINTS)
	$(INSTALL) torch
	touch $@

# Built without isolation, so that the build uses the pinned tools and can be resumed.
$(VENV)/kernels.stamp: $(CONSTRAINTS) pyproject.toml $(KERNELS)
	$(INSTALL) --group build
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/dev.stamp: $(VENV)/gattn.stamp
	$(INSTALL) --group test --group lint --group docs
	touch $@

.venv-release/stamp: $(CONSTRAINTS) pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --upgrade pip
	.venv-release/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --group release
	touch $@

# AddressSanitizer and UBSan over the C++ kernels: make sanitize TESTS=tests/ops/attention/test_gatv2.py
TESTS ?= tests/ops tests/sampling/test_hop.py tests/sampling/test_neighbors.py
sanitize: $(VENV)/dev.stamp
	$(BIN)/python .ci/sanitize.py $(TESTS)

clean:
	rm -rf $(VENV) .venv-* build dist site runs .coverage .pytest_cache .ruff_cache .hypothesis
