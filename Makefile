# Every target builds `.venv` first; it is rebuilt only when the package's own requirements change.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo live test test-cluster test-engines test-trapping test-slow fuzz lint format bench docs wheel-check clean

demo: $(READY)
	$(BIN)/sooner demo

# A service with simulated sensors and its page, until Ctrl-C; LIVE="--port 8080 --sensors 50" changes it.
live: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python examples/live/simulate.py $(LIVE)

# One thread for each of the two processes: more would only wait for each other.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup

test-cluster: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup -m "cluster or faults"

# The same decisions on every engine; those that cannot run here are skipped with a sentence.
test-engines: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/engines -m engines

# The tests that concern bfloat16, on a simulated machine that kills whatever multiplies in it, and on one that does so only
# with AMX, which is switched off. TESTS=tests runs all of them on the first.
TESTS ?= tests/test_bfloat16.py tests/train/test_train.py tests/models/test_recurrent.py tests/lab/experiments tests/data/sets/test_video.py
TRAPPING := OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/tests/trapping
test-trapping: $(READY)
	$(TRAPPING) $(BIN)/pytest -n 2 --dist loadgroup $(TESTS)
	$(TRAPPING) TRAPPING=amx ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 $(BIN)/pytest tests/test_bfloat16.py tests/models/test_recurrent.py

test-slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup -m slow

# N inputs of seed SEED, or number CASE of them alone; ONLY names one reader ("csv"). What fails is kept in build/fuzz.
N ?= 100000
SEED ?= 0
fuzz: $(READY)
	PYTHONPATH=tests $(BIN)/python -m fuzz --inputs $(N) --seed $(SEED) --only "$(ONLY)" $(if $(CASE),--case $(CASE))

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/sat_curve.py
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/journal.py
	$(BIN)/python benchmarks/nmnist.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/consistency.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/guarantees.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/engines.py

docs: $(READY)
	$(BIN)/python .ci/docs.py

# The built wheel, in an empty environment, outside this tree.
wheel-check: $(READY)
	$(BIN)/python .ci/wheel.py

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "sooner needs Python 3.11 or newer, got $$($(PYTHON) --version). Name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

clean:
	rm -rf .venv build dist demo site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
