# Everything runs from one virtual environment, made on first use and kept.
# Change these on the command line: make test WORKERS=8
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
WORKERS ?= 2
BENCH ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint $(CONSTRAINTS)
KERNELS := $(wildcard gattn/kernels/cpu/*.cpp gattn/kernels/cpu/*.h gattn/kernels/cpu/CMakeLists.txt)

.PHONY: help demo test versions lint format bench docs sanitize clean

help:
	@echo "make demo    install and train the two main examples on data that ships with rdkit"
	@echo "make test    install and run the tests, doctests and examples"
	@echo "make versions TORCH=2.10.0  the tests with another PyTorch, and the Triton that it brings"
	@echo "make lint    format check, lint, types, import order"
	@echo "make bench   measure against PyTorch Geometric (BENCH='--list' shows the cases)"
	@echo "make docs    build the documentation into site/"
	@echo "make format  rewrite the sources as make lint wants them"
	@echo "make sanitize  the operators' tests on kernels with AddressSanitizer and UBSan"
	@echo "make clean   remove the environment and everything built"

demo: $(VENV)/gattn.stamp
	$(BIN)/python examples/node_classification.py
	$(BIN)/python examples/molecule_property.py

# One thread for each worker: two workers with two threads each would wait for one another.
test: $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

versions:
	sed -e 's/^torch==.*/torch==$(TORCH)/' -e '/^triton==/d' constraints.txt > .venv-$(TORCH).txt
	$(MAKE) test VENV=.venv-$(TORCH) CONSTRAINTS=.venv-$(TORCH).txt

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/gattn.stamp
	$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/dev.stamp
	$(INSTALL) --group docs
	$(BIN)/mkdocs build --strict

# torch comes first and pinned: a package that asks for any torch must find this one in place.
$(VENV)/torch.stamp: $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	  "gattn needs Python 3.10 or newer, got " + sys.version.split()[0] + ": make PYTHON=...")'
	@echo "Installing PyTorch into $(VENV): a few minutes, pip is silent meanwhile"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) torch
	touch $@

# Built without isolation, so that the build uses the pinned tools and can be resumed.
$(VENV)/gattn.stamp: $(VENV)/torch.stamp pyproject.toml $(KERNELS)
	@echo "Installing gattn: its C++ kernels take about a minute to compile"
	$(INSTALL) --group build
	$(INSTALL) --no-build-isolation --editable .
	touch $@

$(VENV)/dev.stamp: $(VENV)/gattn.stamp
	$(INSTALL) --group test --group lint
	touch $@

# AddressSanitizer and UBSan over the C++ kernels: make sanitize TESTS=tests/ops/test_mlp.py
TESTS ?= tests/ops
sanitize: $(VENV)/dev.stamp
	$(BIN)/python .ci/sanitize.py $(TESTS)

clean:
	rm -rf $(VENV) .venv-* build dist site .pytest_cache .ruff_cache .hypothesis
