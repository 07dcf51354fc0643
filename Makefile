# All targets use one virtual environment, which is created on first use.
# Variables can be set on the command line: make test WORKERS=8
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
WORKERS ?= 2
BENCH ?=

# Containers often set this variable. Without compiled files on disk, each process that imports torch
# compiles thousands of modules, which takes ten seconds of processor time.
export PYTHONDONTWRITEBYTECODE :=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# pip unpacks the packages in one process, which takes longest, so what runs beside it has a lower priority.
BESIDE_PIP := nice -n 3
INSTALL := $(PIP) install --quiet --no-compile --constraint $(CONSTRAINTS)
# To read the dependencies, pip asks the build tools for metadata, for which they would compile the kernels.
DEPENDENCIES := $(INSTALL) --only-deps --no-build-isolation --config-settings wheel.cmake=false
# Each worker has one thread, or two for tests of threaded kernels (tests/conftest.py). Idle threads
# sleep: if they were spinning, two workers with two threads each would block one another.
THREADS ?= 2
SLEEP := OMP_WAIT_POLICY=passive
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(SLEEP) GATTN_TEST_THREADS=$(THREADS) \
  $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
# Tests of the kernels, which run with THREADS threads from the start of the process.
KERNEL_TESTS := tests/ops tests/sampling tests/nn
CPP := $(wildcard gattn/kernels/cpu/*.cpp gattn/kernels/cpu/*.h)
KERNELS := $(CPP) gattn/kernels/cpu/CMakeLists.txt

# Tables written by examples/imports.py, the last one after the others.
TABLES := runs/demo/modules.csv
DEMO := runs/demo/imports.csv --nodes runs/demo/modules.csv

# Test files of `make quick`, a few for each area.
QUICK := tests/test_architecture.py tests/test_public_api.py tests/test_readme.py \
  tests/test_theorem.py tests/nn/test_every_conv.py tests/test_conversion.py \
  tests/graph/test_graph.py tests/graph/test_layout.py tests/graphs/test_builders.py \
  tests/ops/test_every_operator.py tests/ops/test_numerics.py tests/ops/test_determinism.py \
  tests/ops/registration/test_errors.py \
  tests/data/molecules/test_dataset.py tests/data/test_splits.py

# Test files that ask for equal bits.
BITS = $(shell grep -rl --include=test_*.py mark.bits tests)

.PHONY: help demo quick test slow check bits coverage threads versions sanitize lint format bench docs sdist wheels tagged clean

help:
	@echo "make demo    install, and train attention on the imports between SymPy's modules"
	@echo "make quick   install, and run a few test files of each area, in a minute"
	@echo "make test    install, and run the tests, doctests and examples"
	@echo "make slow    run the tests that take more than five seconds: Triton's interpreter, builds, exports"
	@echo "make check   run all tests, including the slow ones"
	@echo "make coverage  run the tests, and list the lines of gattn/ that they do not reach"
	@echo "make bits    run the tests of equal bits without the vector instructions of PyTorch"
	@echo "make threads run the kernels' tests with two threads, then make sanitize"
	@echo "make versions TORCH=2.10.0  run the tests with another PyTorch and its Triton;"
	@echo "             PYG=2.7.0 also selects the version of PyTorch Geometric"
	@echo "make lint    check format, lint rules, types, import order and commit subjects"
	@echo "make bench   run the benchmarks against PyTorch Geometric (BENCH='--list' lists the cases)"
	@echo "make docs    build the documentation into site/"
	@echo "make format  format the sources"
	@echo "make sdist   build the source distribution in dist/"
	@echo "make wheels  build wheels for this system and every Python in dist/ (on Linux: needs Docker)"
	@echo "make tagged TAG=v0.1.0  check that the tag matches the version and the changelog"
	@echo "make sanitize  run the operators' tests with AddressSanitizer and UBSan"
	@echo "make clean   remove the environment and all build outputs"

# The tables need SymPy only, which comes with PyTorch, so they are written during the installation.
demo: BESIDE := $(TABLES)
demo: $(VENV)/nodes.stamp
	@$(MAKE) --silent --no-print-directory $(TABLES)
	@echo "Training attention along these imports four times, and three baselines (half a minute)"
	$(BIN)/gattn nodes train $(DEMO) --label part --split random-per-class --runs 4 --out runs/demo/run
	@echo
	@echo "Picture of the network:  runs/demo/run/plots/network.png"
	@echo "Report with all results: runs/demo/run/report.html"
	@echo "To predict every node:   $(BIN)/gattn nodes predict runs/demo/run $(DEMO) --out runs/demo/predicted.csv"
	@echo "To use your own network, replace these two tables."

$(TABLES): $(VENV)/torch.stamp examples/imports.py
	@echo "Reading the imports between SymPy's modules (ten seconds)"
	$(BESIDE_PIP) $(BIN)/python examples/imports.py --out $(@D)

quick: $(VENV)/test.stamp
	$(PYTEST) -m "not slow" $(QUICK)

test: $(VENV)/test.stamp
	$(PYTEST) -m "not slow"

slow: $(VENV)/test.stamp
	$(PYTEST) -m slow

# One run imports and collects only once, and short tests fill the time while slow tests finish.
check: $(VENV)/dev.stamp
	$(PYTEST)

coverage: $(VENV)/dev.stamp
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

bits: $(VENV)/test.stamp
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m "bits and not slow" $(BITS)

threads: $(VENV)/test.stamp
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
	$(BIN)/python .ci/commits.py

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

# The environment with all packages of gattn, with those of the tests, and with the tools of `make
# lint` and `make docs`, without which the tests of the site are skipped.
$(VENV)/gattn.stamp: BESIDE = $(VENV)/molecules.stamp
$(VENV)/test.stamp: BESIDE = $(VENV)/test-packages.stamp
$(VENV)/dev.stamp: BESIDE = $(VENV)/dev-packages.stamp
$(VENV)/gattn.stamp $(VENV)/test.stamp $(VENV)/dev.stamp: $(VENV)/nodes.stamp
	$(MAKE) --no-print-directory $(BESIDE)
	touch $@

# The kernels are compiled while pip unpacks PyTorch and then the other packages. With --no-compile,
# Python compiles only the modules that are imported, a fraction of those installed. BESIDE names
# further targets that are built at the same time.
$(VENV)/nodes.stamp: $(CONSTRAINTS) pyproject.toml $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	  "gattn needs Python 3.10 or newer, got " + sys.version.split()[0] + ": make PYTHON=...")'
	@echo "Installing PyTorch and gattn into $(VENV): this takes one or two minutes, pip prints nothing"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(MAKE) --no-print-directory -j 3 $(VENV)/packages.stamp $(VENV)/kernels.stamp $(BESIDE)
	touch $@

# The pinned torch is installed first, so that other packages do not install another version.
$(VENV)/torch.stamp: $(CONSTRAINTS)
	$(INSTALL) torch
	touch $@

# The build is not isolated, so that it uses the pinned tools and can be resumed.
$(VENV)/build.stamp: $(CONSTRAINTS) pyproject.toml
	$(INSTALL) --group build
	touch $@

$(VENV)/kernels.stamp: $(VENV)/build.stamp $(KERNELS)
	$(BESIDE_PIP) $(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

# pip reads the dependencies with the build tools.
$(VENV)/packages.stamp: $(VENV)/torch.stamp $(VENV)/build.stamp
	$(DEPENDENCIES) ".[nodes]"
	touch $@

$(VENV)/molecules.stamp: $(VENV)/packages.stamp
	$(DEPENDENCIES) ".[molecules]"
	touch $@

$(VENV)/test-packages.stamp: $(VENV)/molecules.stamp
	$(INSTALL) --group test
	touch $@

$(VENV)/dev-packages.stamp: $(VENV)/test-packages.stamp
	$(INSTALL) --group lint --group docs
	touch $@

.venv-release/stamp: $(CONSTRAINTS) pyproject.toml
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --upgrade pip
	.venv-release/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --group release
	touch $@

# Tests of the C++ kernels with AddressSanitizer and UBSan: make sanitize TESTS=tests/ops/attention/test_gatv2.py
TESTS ?= tests/ops tests/kernels/test_molecule_features.py tests/sampling/test_hop.py tests/sampling/test_neighbors.py
sanitize: $(VENV)/test.stamp
	$(BIN)/python .ci/sanitize.py $(TESTS)

clean:
	rm -rf $(VENV) .venv-* build dist site runs .coverage .pytest_cache .ruff_cache .hypothesis
