"""The live demo as a program: starts a broker and the producer, runs the app, and prints alarms and counters."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from alarms import print_alarms
from kigen_lab.servers.kafka_broker import running_broker
from produce import create_topics, produce

from kigen import Engine

APP = Path(__file__).parent / "vehicles.cql"


def main(seconds: float) -> None:
    ended = threading.Event()
    with tempfile.TemporaryDirectory() as state, running_broker(Path(state) / "broker") as broker:
        brokers = broker.address
        create_topics(brokers)
        threading.Thread(target=produce, args=(brokers, seconds + 60), daemon=True).start()
        reader = threading.Thread(target=print_alarms, args=(brokers, ended))
        reader.start()
        with Engine() as engine:
            result = engine.run(APP, params={"brokers": brokers}, duration_s=seconds)
        ended.set()
        reader.join()
    for name, counts in result.report["queries"].items():
        print(f"{name}: {counts['in']} tuples in, {counts['out']} rows out, latency {counts['latency_ms']}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
