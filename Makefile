# Each target does its own set-up: a machine with Python 3.11+ and make needs nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup demo test test-slow test-clients test-protocol check benchmark clean
setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; name one with make PYTHON=...") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

demo: setup
	$(BIN)/hawkeye-bench --agent minimal --condition none --condition taxonomy \
	  --workloads 8p_GEMM,41k_Gemm_Add_ReLU,12p_RMSNorm --tpu v5e --max-evaluations 4

# PyTorch, which the tests of `hawkeye job` run, is large where its build without CUDA is not at hand: the demo does without.
$(VENV)/.torch: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[torch]'
	touch $@

# A process for each core: one that has finished its tests takes half of what another has left.
test: setup $(VENV)/.torch
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# Full-size checks that would make the suite too long.
test-slow: setup $(VENV)/.torch
	$(BIN)/python -m pip install --quiet --editable '.[ray]'
	$(BIN)/python -m pytest -m slow

# Against the programs of others, of the versions that the adapters were written for. What cannot be installed here is
# left out, and its tests say so. About 3 GB.
CLIENTS := .clients
NEWER_PYTHON ?= python3.12
test-clients: setup $(CLIENTS)/.installed $(CLIENTS)/protocol/.installed
	$(BIN)/python -m pytest -m clients

# The protocol's own conformance suite and inspector: the part of these that is small enough for every change (330 MB).
test-protocol: setup $(CLIENTS)/protocol/.installed
	$(BIN)/python -m pytest -m clients tests/conformance

$(CLIENTS)/protocol/.installed: Makefile
	mkdir -p $(CLIENTS)/protocol
	npm install --prefix $(CLIENTS)/protocol --no-audit --no-fund @modelcontextprotocol/conformance@0.1.16 \
	  @modelcontextprotocol/inspector@2.12.0 node@22 && touch $@ || echo "not installed: its tests are skipped, and say so"

$(CLIENTS)/.installed: Makefile
	mkdir -p $(CLIENTS)
	$(BIN)/python -m pip install --quiet --group clients
	-command -v chromedriver || apt-get install -y -qq chromium chromium-driver
	-npm install --prefix $(CLIENTS) --no-audit --no-fund @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0 \
	  @google/gemini-cli@0.61.0 node@22
	-$(NEWER_PYTHON) -m venv $(CLIENTS)/openhands && \
	  $(CLIENTS)/openhands/bin/pip install --quiet openhands-sdk==1.58.2 openhands-tools==1.58.2
	-$(PYTHON) -m venv $(CLIENTS)/inspect && $(CLIENTS)/inspect/bin/pip install --quiet inspect_ai==0.3.285
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: setup
	$(BIN)/python -m hawkeye_bench.benchmark

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
