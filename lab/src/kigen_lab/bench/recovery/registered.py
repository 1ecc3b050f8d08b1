"""`kigen bench recovery`."""

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
    rate: Annotated[
        list[int] | None,
        typer.Option(metavar="R", min=1, help="Only this rate, in tuples per second (may be repeated)."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Kills per rate.", show_default="3, quick 1")
    ] = None,
) -> Measurement:
    """Kill all processes of a live run late in an epoch, start it again, and measure until results go on."""
    from kigen_lab.bench.recovery.benchmark import RecoveryBench, RecoverySettings
    from kigen_lab.bench.recovery.report import recovery_table

    standard = RecoverySettings(trials=1) if quick else RecoverySettings()
    settings = replace(
        standard,
        out=out,
        rates=tuple(rate) if rate else standard.rates,
        trials=standard.trials if trials is None else trials,
    )
    bench = RecoveryBench(settings, say)
    return Measurement(bench.steps, bench.run, recovery_table)


RECOVERY = Benchmark("recovery", "kigen bench recovery --rate 10000 --json recovery.json", _prepare)
