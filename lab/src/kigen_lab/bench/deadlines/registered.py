"""`kigen bench deadlines`."""

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
    policy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this policy (may be repeated).")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(metavar="L", help="Only this load: a share of capacity, or 'safe' (may be repeated)."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Length of a cell.", show_default="240, quick 60")
    ] = None,
    trials: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of each cell, with other arrivals each; the median counts.")
    ] = 1,
    partitions: Annotated[
        int | None, typer.Option(metavar="N", help="Tasks that run at once.", show_default="one per core")
    ] = None,
    soft: Annotated[
        bool, typer.Option("--soft", help="Deadlines without FIRM: late results are delivered, nothing is dropped.")
    ] = False,
) -> Measurement:
    """Measure what each policy misses: twenty queries with deadlines of 0.1 to 5 s, under bursts, at several loads,
    beside the bound."""
    from kigen.schedule import read_policy
    from kigen_lab.bench.deadlines.benchmark import DeadlinesBench, DeadlinesSettings
    from kigen_lab.bench.deadlines.report import deadlines_table, draw_deadlines

    standard = DeadlinesSettings(seconds=60.0, policies=("all", "pack")) if quick else DeadlinesSettings()
    policies = tuple(policy) if policy else standard.policies
    for name in policies:
        read_policy(name)
    settings = replace(
        standard,
        out=out,
        policies=policies,
        loads=tuple(_load(text) for text in load) if load else standard.loads,
        seconds=standard.seconds if seconds is None else seconds,
        trials=trials,
        partitions=partitions,
        firm=not soft,
    )
    bench = DeadlinesBench(settings, say)
    return Measurement(bench.steps, bench.run, deadlines_table, draw_deadlines)


def _load(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if text != "safe" and not 0 < value <= 10:
        raise typer.BadParameter(f"a load is a share of capacity such as 1.3, or 'safe', not '{text}'")
    return text if text == "safe" else value


DEADLINES = Benchmark(
    "deadlines",
    "kigen bench deadlines --policy all --policy pack --load 1.3 --seconds 240 --json deadlines.json",
    _prepare,
)
