"""Measures Kafka to Kafka selections: Kigen with JSON and with Arrow values, and bytewax with JSON.

A contestant starts and selects a few cars; then many come at once (kigen_lab.bench.connectors.topics). The time is that
from then until the output has all selected cars, seen from the broker. Each run ends with a check that it has every one
once. Kigen writes in transactions, exactly once; bytewax does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

from kigen_lab.bench.connectors.kigen_command import KigenCommand
from kigen_lab.bench.connectors.progress import wait_for
from kigen_lab.bench.connectors.topics import LEAST_SPEED, PARTITIONS, CommittedRows, HiddenCars, TopicEnds, messages
from kigen_lab.bench.worker import ContestantFailed
from kigen_lab.servers.kafka_broker import Broker
from kigen_lab.servers.ports import free_ports

_SETTLE_S = 1.0  # between the first cars and the many
_APP = """
CREATE STREAM cars (id BIGINT, speed DOUBLE)
  FROM kafka (brokers = '{brokers}', topic = '{topic}', format = '{format}', start = 'earliest');
CREATE QUERY fast AS ISTREAM(SELECT id, speed FROM cars [NOW] WHERE speed > {least})
  INTO kafka (brokers = '{brokers}', topic = '{target}', format = '{format}', transactional_id = '{target}');
"""


def kigen_rate(broker: Broker, topic: str, form: str, rows: int, early: int, folder: Path) -> float:
    """Returns the tuples per second of one run, over a topic of its own."""
    target = f"{topic}-out"
    broker.create(target, PARTITIONS)
    cars = HiddenCars(broker, topic, form, rows, early)
    text = _APP.format(brokers=broker.address, topic=topic, target=target, format=form, least=LEAST_SPEED)
    with KigenCommand(text, folder) as run:
        count = CommittedRows(broker, target, target)
        wait_for(count, cars.selected_early, run.require)
        time.sleep(_SETTLE_S)
        began = cars.release()
        took_s = wait_for(count, cars.selected, run.require) - began
    _require(sum(_rows(value, form) for value in messages(broker, target)), cars.selected, "kigen")
    return rows / took_s


def _rows(value: bytes, form: str) -> int:
    return 1 if form == "json" else int(pa.ipc.open_stream(value).read_all().num_rows)


def bytewax_rate(broker: Broker, topic: str, processes: int, rows: int, early: int, folder: Path) -> float:
    """Returns the tuples per second of one run in so many processes."""
    folder.mkdir(parents=True, exist_ok=True)
    target = f"{topic}-out"
    broker.create(target, PARTITIONS)
    cars = HiddenCars(broker, topic, "json", rows, early)
    environment = {
        **os.environ,
        "KIGEN_BENCH_BROKERS": broker.address,
        "KIGEN_BENCH_TOPIC": topic,
        "KIGEN_BENCH_TARGET": target,
    }
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(processes))
    running = []
    with open(folder / "bytewax.log", "ab") as log:
        for place in range(processes):
            command = [sys.executable, "-m", "bytewax.run", "kigen_lab.bench.connectors.bytewax_flow:flow"]
            command += ["-i", str(place), "-a", addresses] if processes > 1 else []
            running.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment))
    count = TopicEnds(broker, target)
    try:
        wait_for(count, cars.selected_early, lambda: _require_running(running, folder))
        time.sleep(_SETTLE_S)
        began = cars.release()
        took_s = wait_for(count, cars.selected, lambda: _require_running(running, folder)) - began
    finally:
        for process in running:
            process.terminate()
            process.wait(30)
    _require(sum(1 for _ in messages(broker, target)), cars.selected, "bytewax")
    return rows / took_s


def _require_running(running: list[subprocess.Popen[bytes]], folder: Path) -> None:
    if any(process.poll() not in (None, 0) for process in running):
        raise ContestantFailed(f"bytewax failed (log: {folder / 'bytewax.log'})")


def _require(found: int, selected: int, name: str) -> None:
    if found != selected:
        raise ContestantFailed(f"{name}: the output has {found:,} rows, not {selected:,}")
