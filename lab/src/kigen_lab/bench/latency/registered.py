"""`kigen bench latency`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    queries: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only this number of queries (may be repeated).")
    ] = None,
    rate: Annotated[
        list[int] | None, typer.Option(metavar="R", help="Only this rate, in tuples per second (may be repeated).")
    ] = None,
    durability: Annotated[
        list[str] | None, typer.Option(metavar="D", help="Only this durability: power or process (may be repeated).")
    ] = None,
    contestant: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only rounds, epoch-0 or plain (may be repeated).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Time that counts, per run.", show_default="20, quick 8")
    ] = None,
    turns: Annotated[int | None, typer.Option(metavar="N", help="Runs per cell.", show_default="2, quick 1")] = None,
) -> Measurement:
    """Measure latency from a tuple's arrival to the commit of its results: Kigen in rounds, Kigen with a micro-batch
    per round, and plain Structured Streaming, in turns."""
    from kigen.durable import durability_of
    from kigen_lab.bench.latency.benchmark import NAMED, LatencyBench, LatencySettings
    from kigen_lab.bench.latency.report import draw_latency, latency_table

    standard = LatencySettings(rates=(1_000,), turns=1, warm_s=4.0, seconds=8.0) if quick else LatencySettings()
    for name in durability or ():
        durability_of(name)
    for number in (*(queries or ()), *(rate or ())):
        if number < 1:
            raise typer.BadParameter(f"queries and rates are whole numbers from 1 on, not {number}")
    for name in contestant or ():
        if name not in NAMED:
            raise typer.BadParameter(f"there is no contestant '{name}': write {', '.join(NAMED)}")
    settings = replace(
        standard,
        out=out,
        contestants=tuple(NAMED[name] for name in contestant) if contestant else standard.contestants,
        queries=tuple(queries) if queries else standard.queries,
        rates=tuple(rate) if rate else standard.rates,
        durabilities=tuple(durability) if durability else standard.durabilities,
        seconds=standard.seconds if seconds is None else seconds,
        turns=standard.turns if turns is None else turns,
    )
    bench = LatencyBench(settings, say)
    return Measurement(bench.steps, bench.run, latency_table, draw_latency)


LATENCY = Benchmark("latency", "kigen bench latency --queries 1 --rate 1000 --json latency.json", _prepare)
