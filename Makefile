# On a fresh machine, `make demo` runs the main example and `make test` runs the checks and all tests.
PYTHON ?= python3
VENV := .venv/bin
export PYTHON

# Files are dealt to one worker more than a small machine has cores: many tests wait for processes.
TESTS = $(VENV)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder
SPARK := tests/standby_nodes tests/nodes tests/spark tests/engine tests/cli tests/docs tests/packaging

.PHONY: setup demo demo-live test check fast spark soak bench clean help

help:            ## show this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 11

setup:           ## create .venv with the command at .venv/bin/kigen, and install Java if there is none
	@bash scripts/setup.sh

demo: setup      ## run the rooms example, show its results and draw their lifetimes
	@bash examples/rooms/demo.sh

demo-live: setup ## run the live example: a Kafka broker, a producer of vehicles, alarms in a topic, averages in the terminal
	@bash examples/live/demo.sh

check: setup     ## check lint, types and the layers of packages
	$(VENV)/ruff check src lab tests
	$(VENV)/ruff format --check src lab tests
	$(VENV)/mypy
	$(VENV)/python -m pytest -q tests/architecture

test: check fast ## run the checks and all tests, as CI does
	$(TESTS) $(SPARK)

fast: setup      ## run the tests without Spark
	$(TESTS) tests $(addprefix --ignore=,$(SPARK) tests/soak tests/architecture)

soak: setup      ## run the long tests: 5,000 random apps of each kind, 100 kills, ten each over HTTP, Kafka, PostgreSQL and MQTT, servers away for minutes, 100 killed leaders, all seeds of the random tests
	KIGEN_SOAK=1 $(VENV)/python -m pytest -q --timeout=0 tests/soak tests/nodes tests/standby_nodes tests/standby tests/protocol tests/schedule tests/queue tests/links tests/lifetimes tests/placement tests/spark/test_http_kill.py tests/spark/test_live_change_kill.py tests/spark/test_kafka_run.py tests/spark/test_postgres_kill.py tests/spark/test_mqtt_kill.py tests/spark/test_servers_away.py tests/spark/test_random_apps_on_spark.py

bench: setup     ## run the short form of all benchmarks: over an hour, on an otherwise idle machine
	for name in floor latency lifetimes joins shared-joins deadlines links placement nodes standby connectors; do $(VENV)/kigen bench $$name --quick || exit 1; done

clean:           ## remove everything that make created
	rm -rf .venv build dist out .mypy_cache .ruff_cache .pytest_cache
