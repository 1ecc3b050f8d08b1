# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test` the checks and all tests.
PYTHON ?= python3
VENV := .venv/bin
export PYTHON

.PHONY: setup demo test check fast spark soak bench clean help

help:            ## what there is
	@grep -hE '^[a-z]+: .*##|^[a-z]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup:           ## .venv with the command at .venv/bin/kigen, and Java if there is none
	@bash scripts/setup.sh

demo: setup      ## rooms and sensors: several queries, their results, and a picture of lifetimes
	@bash examples/rooms/demo.sh

check: setup     ## lint, types, layers
	$(VENV)/ruff check src lab tests
	$(VENV)/ruff format --check src lab tests
	$(VENV)/mypy
	$(VENV)/python -m pytest -q tests/architecture

test: check fast ## the checks and all tests: what CI runs
	$(VENV)/python -m pytest -q tests/spark tests/engine tests/cli tests/nodes tests/standby_nodes tests/docs tests/packaging

fast: setup      ## the tests without Spark; those that wait for processes and silences one after the other
	$(VENV)/python -m pytest -q -n auto --dist worksteal --ignore=tests/links --ignore=tests/standby --ignore=tests/spark --ignore=tests/engine --ignore=tests/cli --ignore=tests/nodes --ignore=tests/standby_nodes --ignore=tests/soak --ignore=tests/architecture --ignore=tests/docs --ignore=tests/packaging
	$(VENV)/python -m pytest -q tests/links tests/standby

soak: setup      ## the long runs: 5,000 random queries, 100 kills, 100 leaders killed
	KIGEN_SOAK=1 $(VENV)/python -m pytest -q --timeout=0 tests/soak tests/nodes tests/standby_nodes tests/standby tests/protocol

bench: setup     ## all benchmarks, short forms, one after the other: over an hour, on a machine that does nothing else
	for name in floor lifetimes joins shared-joins deadlines links placement nodes standby; do $(VENV)/kigen bench $$name --quick || exit 1; done

clean:           ## remove what was made
	rm -rf .venv build dist out .mypy_cache .ruff_cache .pytest_cache
