"""`kigen bench admission`."""

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
        list[int] | None, typer.Option(metavar="N", min=1, help="Only this number of queries (may be repeated).")
    ] = None,
    news: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=0, help="Only so many streams with news; 0: all (may be repeated)."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs per cell; the median counts.", show_default="3")
    ] = None,
) -> Measurement:
    """Measure the CPU time of admission per round: 20, 100 and 300 queries with a stream each, of which 1, 10 or all
    have a new tuple."""
    from kigen_lab.bench.admission.report import admission_table
    from kigen_lab.bench.admission.rounds import QUICK, AdmissionSettings, run_admission_bench

    standard = QUICK if quick else AdmissionSettings()
    settings = replace(
        standard,
        out=out,
        queries=tuple(queries) if queries else standard.queries,
        news=tuple(news) if news else standard.news,
        trials=trials or standard.trials,
    )
    steps = len(settings.cells) * settings.trials
    return Measurement(steps, lambda advance: run_admission_bench(settings, say, advance), admission_table)


ADMISSION = Benchmark("admission", "kigen bench admission --queries 300 --json admission.json", _prepare)
