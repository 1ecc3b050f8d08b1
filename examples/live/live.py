"""The live demo as a program: starts the producer in a thread, runs the app, and reports what the run counted."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import produce

from kigen import Engine

APP = Path(__file__).parent / "vehicles.cql"


def main(seconds: float) -> None:
    threading.Thread(target=produce.produce, args=(seconds + 60,), daemon=True).start()
    with Engine() as engine:
        result = engine.run(APP, duration_s=seconds)
    for name, counts in result.report["queries"].items():
        print(f"{name}: {counts['in']} tuples in, {counts['out']} rows out, latency {counts['latency_ms']}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
