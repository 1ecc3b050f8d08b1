"""`kigen bench idle`."""

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
    app: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only http, synthetic or followed (may be repeated).")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=1.0, help="Time that counts, per app.", show_default="60, quick 10")
    ] = None,
) -> Measurement:
    """Measure the CPU time of running apps that have nothing to do, per process, in percent of a core."""
    from kigen_lab.bench.idle.benchmark import APPS, IdleSettings, run_idle_bench
    from kigen_lab.bench.idle.report import idle_table

    for name in app or ():
        if name not in APPS:
            raise typer.BadParameter(f"there is no app '{name}': write one of {', '.join(APPS)}")
    standard = IdleSettings(seconds=10.0, settle_s=10.0) if quick else IdleSettings()
    settings = replace(
        standard,
        out=out,
        apps=tuple(app) if app else standard.apps,
        seconds=standard.seconds if seconds is None else seconds,
    )
    return Measurement(len(settings.apps), lambda advance: run_idle_bench(settings, say, advance), idle_table)


IDLE = Benchmark("idle", "kigen bench idle --app http --json idle.json", _prepare)
