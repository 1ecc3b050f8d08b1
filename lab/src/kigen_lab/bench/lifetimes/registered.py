"""`kigen bench lifetimes`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Advance, Benchmark, Measurement, Result, Say
from kigen_lab.bench.window_kind import WindowKind


class Part(StrEnum):
    """The queries to measure."""

    all = "all"
    paper = "paper"
    newer = "newer"


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    query: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this query (may be repeated).")] = None,
    window: Annotated[
        list[int] | None, typer.Option(metavar="W", help="Only this window, in tuples (may be repeated).")
    ] = None,
    part: Annotated[
        Part,
        typer.Option(help="The paper's six queries, those over newer constructs, or all; --query goes first."),
    ] = Part.all,
    kind: Annotated[
        WindowKind, typer.Option(help="RANGE windows, ROWS windows, or both in one result.")
    ] = WindowKind.both,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Runs per contestant; the median counts.", show_default="3")
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(metavar="N", help="Tuples per run.", show_default="24,000,000, or half of it")
    ] = None,
) -> Measurement:
    """Measure the throughput of the lifetime paper's six queries: Kigen on Spark, plain Structured Streaming, and the
    kernel alone, in turns; and of queries over newer constructs: Kigen on Spark and the kernel alone."""
    from kigen_lab.bench.lifetimes.benchmark import LifetimesBench
    from kigen_lab.bench.lifetimes.picture import draw_throughput
    from kigen_lab.bench.lifetimes.settings import lifetimes_settings
    from kigen_lab.bench.lifetimes.targets import figures
    from kigen_lab.bench.tables import lifetimes_tables

    bench = LifetimesBench(lifetimes_settings(quick, out, query, window, kind.value, trials, tuples, part.value), say)

    def run(advance: Advance) -> Result:
        result = bench.run(advance)
        return {**result, "figures": [figure.to_json() for figure in figures(result)]}

    return Measurement(bench.steps, run, lifetimes_tables, draw_throughput, lambda: bench.failed)


LIFETIMES = Benchmark(
    "lifetimes", "kigen bench lifetimes --quick --query join --window 10 --window 10000 --json join.json", _prepare
)
