# make demo    run five nodes under faults, once as they are and once with a bug switched on, and judge both
# make test    the test suite (minutes);  make test-all adds the slow rest
# make lint    ruff, pyright (strict), import contracts, docs/reference.md, docs/json
# make bench   every benchmark, each also one command: see docs/benchmarks.md
#
# The first target that runs sets everything up in .venv: it needs make and a Python of 3.11 or later, nothing else.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Pytest compiles what it collects: once, and not in every process anew, also where the environment forbids bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-together test-alone lint bench lock clean

demo: $(READY)
	$(BIN)/splitbrain demo

test: $(READY)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow and not alone"
	$(BIN)/python -m pytest -q -m "not slow and alone"

test-all: test-together test-alone

test-together: $(READY)
	$(BIN)/python -m pytest -q -n 4 --dist worksteal -m "not alone"

test-alone: $(READY)
	$(BIN)/python -m pytest -q -m alone

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/schemas.py --check

bench: $(READY)
	for each in benchmarks/*.py; do echo "== $$each"; $(BIN)/python $$each || exit 1; done

$(READY): requirements.lock pyproject.toml tools/setup
	tools/setup $(VENV)
	touch $@

# After a change of dependencies. The lock file carries hashes and no address of an index.
lock:
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --quiet --upgrade \
	  --python-version 3.11 --extra dev --extra spark pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) .venv-3.* .pytest_cache .ruff_cache .hypothesis
