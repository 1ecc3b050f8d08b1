"""`kigen bench floor`."""

from __future__ import annotations

from pathlib import Path

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(say: Say, quick: bool, out: Path) -> Measurement:
    """Measure the fixed cost of a micro-batch and its phases: Kigen and plain stateful queries, in turns."""
    from kigen_lab.bench.floor.benchmark import FloorSettings, run_floor_bench, turns
    from kigen_lab.bench.tables import floor_table

    settings = FloorSettings(rounds=2, batches=20, out=out) if quick else FloorSettings(out=out)
    return Measurement(turns(settings), lambda advance: run_floor_bench(settings, say, advance), floor_table)


FLOOR = Benchmark("floor", "kigen bench floor --quick --json floor.json", _prepare)
