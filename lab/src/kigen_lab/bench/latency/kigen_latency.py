"""Measures Kigen's latencies: one run, of which a stretch in the middle counts. Runs in the process of
`kigen_lab.bench.lifetimes.kigen_side`.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kigen.engine import Engine
from kigen.plan import bind
from kigen.spark.sink.metrics import Histogram
from kigen_lab.bench.latency.schedule import Load, app_text
from kigen_lab.bench.worker import Answer

_POLL_S = 0.05
_START_S = 120.0


def run_kigen_latency(
    engine: Engine, load: Load, folder: Path, epoch_s: float | None, durability: str, warm_s: float, seconds: float
) -> Answer:
    """Runs live for a while. `epoch_s` None: Kigen's default. Latencies of the last `seconds` count."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    options: dict[str, Any] = {} if epoch_s is None else {"epoch_s": epoch_s}
    run = engine.start(
        bind(app_text(load, str(folder.absolute()))), keep_results=False, durability=durability, **options
    )
    try:
        limit = time.monotonic() + _START_S
        while not all(histogram.counts for histogram in run.latency_histograms().values()):
            if time.monotonic() > limit or not run.active:
                raise TimeoutError(f"no results after {_START_S:.0f} s")
            time.sleep(_POLL_S)
        time.sleep(warm_s)
        before, began = run.latency_histograms(), time.monotonic()
        time.sleep(seconds)
        after, took_s = run.latency_histograms(), time.monotonic() - began
    finally:
        run.stop()
    shutil.rmtree(folder, ignore_errors=True)
    total: Counter[int] = Counter()
    for name, histogram in after.items():
        total += histogram.since(before[name]).counts
    return {"histogram": Histogram(total).to_json(), "seconds": took_s}
