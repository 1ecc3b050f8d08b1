"""`kigen bench joins`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs per query.", show_default="3, quick 1")
    ] = None,
) -> Measurement:
    """Measure joins of many versions, by computed keys and of many pairs: time per version, events per second and
    memory. DuckDB checks the results."""
    from kigen_lab.bench.joins.benchmark import JoinsBench, joins_settings
    from kigen_lab.bench.joins.report import draw_joins, joins_tables

    bench = JoinsBench(joins_settings(quick, out, trials), say)
    return Measurement(bench.steps, bench.run, joins_tables, draw_joins)


JOINS = Benchmark("joins", "kigen bench joins --quick --json joins.json", _prepare)
