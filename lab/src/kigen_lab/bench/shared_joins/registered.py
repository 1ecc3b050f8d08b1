"""`kigen bench shared-joins`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say
from kigen_lab.bench.window_kind import WindowKind


class Lifetime(StrEnum):
    dt = "dt"
    nt = "nt"


class Costs(StrEnum):
    both = "both"
    by_window = "by-window"
    equal = "equal"


def _prepare(
    say: Say,
    quick: bool,
    out: Path,
    queries: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only this number of queries, and one (may be repeated).")
    ] = None,
    kind: Annotated[WindowKind, typer.Option(help="RANGE or ROWS windows.")] = WindowKind.range,
    lifetime: Annotated[
        Lifetime, typer.Option(help="Tuples that carry their death (dt), or negative tuples (nt).")
    ] = Lifetime.dt,
    kernel_only: Annotated[bool, typer.Option("--kernel-only", help="Without the runs on Spark.")] = False,
    overload: Annotated[
        bool,
        typer.Option("--overload", help="Instead, measure what each policy over slices drops when work does not fit."),
    ] = False,
    costs: Annotated[Costs, typer.Option(help="With --overload: what slices cost.")] = Costs.both,
    trials: Annotated[int | None, typer.Option(min=1, metavar="N", help="With --overload: runs per policy.")] = None,
) -> Measurement:
    """Measure 1, 10 and 100 queries over one join that differ in their windows: shared and separate, in the kernel and
    on Spark. With --overload: drops by window under fifo, mqt, mandf, admandf and salvage."""
    if overload:
        if queries or kind != WindowKind.range or kernel_only:
            raise typer.BadParameter("--overload has its own queries over RANGE windows, and runs on Spark")
        return _prepare_overload(say, quick, out, lifetime, costs, trials)
    if costs != Costs.both or trials is not None:
        raise typer.BadParameter("--costs and --trials are options of --overload: add it")
    from kigen_lab.bench.shared_joins.benchmark import SharedJoinsBench, shared_joins_settings
    from kigen_lab.bench.shared_joins.report import draw_shared_joins, shared_joins_table

    settings = shared_joins_settings(quick, out, queries, kind.value, lifetime.value, not kernel_only)
    bench = SharedJoinsBench(settings, say)
    return Measurement(bench.steps, bench.run, shared_joins_table, draw_shared_joins)


def _prepare_overload(
    say: Say, quick: bool, out: Path, lifetime: Lifetime, costs: Costs, trials: int | None
) -> Measurement:
    from kigen_lab.bench.shared_joins.overload import LOADS, OverloadBench, OverloadSettings
    from kigen_lab.bench.shared_joins.overload_report import draw_overload, overload_table

    standard = OverloadSettings(seconds=10, trials=1) if quick else OverloadSettings()
    loads = LOADS if costs == Costs.both else (costs.value.replace("-", " "),)
    chosen = replace(standard, loads=loads, trials=trials or standard.trials, lifetime=lifetime.value, out=out)
    bench = OverloadBench(chosen, say)
    return Measurement(bench.steps, bench.run, overload_table, draw_overload, name="shared-joins-overload")


SHARED_JOINS = Benchmark("shared-joins", "kigen bench shared-joins --quick --json shared.json", _prepare)
