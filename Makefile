# The one list of commands; `make help` prints it. Each target that needs the environment sets it up itself:
# all it asks of the machine is Python 3.11 or newer with pip, a Rust toolchain and make.

PYTHON ?= python3
# A uv on PATH serves if it runs here and is recent enough (`tool.uv.required-version`);
# otherwise a private copy is installed by pip into .tools/, outside every site-packages.
UV := $(or $(shell uv cache dir >/dev/null 2>&1 && command -v uv),$(CURDIR)/.tools/uv/bin/uv)
RUN := $(UV) run --no-sync

NATIVE_MODULE := packages/dataset-rt-core/python/dataset_rt/_core.abi3.so
PYTHON_SOURCES := packages/dataset-rt-core/python packages/dataset-rt-torch/src packages/dataset-rt-bench/src
CARGO_TEST := $(if $(shell cargo nextest --version 2>/dev/null),cargo nextest run,cargo test --lib --tests)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: setup
# uv does not notice that the built module is gone (a clean tree, another machine's cache), so that case asks for it.
setup: $(UV) ## Create .venv with everything, the native module built in release mode
	$(UV) sync --frozen $(if $(wildcard $(NATIVE_MODULE)),,--reinstall-package dataset-rt-core)

$(CURDIR)/.tools/uv/bin/uv:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --target $(CURDIR)/.tools/uv 'uv==0.13.9'

.PHONY: example
example: setup ## Run the guide's example: cache 32 records, print four batches of 8
	$(RUN) python examples/train_cached.py

.PHONY: test
test: test-rust test-python ## Run all tests, Rust first

.PHONY: test-rust
test-rust: ## Run the Rust tests and doctests
	$(CARGO_TEST)
	cargo test --doc

.PHONY: test-python
test-python: setup ## Run the Python tests: API, loader, examples, docs, packaging
	$(RUN) pytest

.PHONY: check
check: check-format lint check-docs check-types ## Run every check that is not a test

.PHONY: check-format
check-format: $(UV) ## Check formatting and lint the Python code
	cargo fmt --check
	$(UV) run --frozen --only-group lint ruff format --check
	$(UV) run --frozen --only-group lint ruff check

.PHONY: lint
lint: ## Lint the Rust code
	cargo clippy --workspace --all-targets -- -D warnings

.PHONY: check-docs
check-docs: ## Build the Rust documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

.PHONY: check-types
check-types: setup ## Type-check the Python code and compare the native module with its stub
	$(RUN) mypy $(PYTHON_SOURCES) tests examples
	$(RUN) python -m mypy.stubtest dataset_rt._core

.PHONY: format
format: $(UV) ## Format all code
	cargo fmt
	$(UV) run --frozen --only-group lint ruff format
	$(UV) run --frozen --only-group lint ruff check --fix

.PHONY: build
build: $(UV) ## Rebuild the native module after an edit that `make setup` does not see
	rm -f packages/dataset-rt-core/python/dataset_rt/*.so
	$(UV) sync --frozen --reinstall-package dataset-rt-core

.PHONY: lock
lock: $(UV) ## Renew both lock files after an edit of the dependencies
	cargo update --workspace
	$(UV) lock

.PHONY: bench
bench: setup ## Measure against memory, files, LMDB and whatever peers are installed, small sizes
	$(RUN) python -m dataset_rt_bench --quick

.PHONY: clean
clean: ## Remove everything that was built, the environment included
	rm -rf .venv .tools target .pytest_cache .mypy_cache .ruff_cache .hypothesis .asv cache_torch
	rm -f packages/dataset-rt-core/python/dataset_rt/*.so
