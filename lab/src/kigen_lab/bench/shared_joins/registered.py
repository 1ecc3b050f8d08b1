"""`kigen bench shared-joins`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kigen_lab.bench.registration import Benchmark, Measurement, Say
from kigen_lab.bench.window_kind import WindowKind


class Lifetime(StrEnum):
    dt = "dt"
    nt = "nt"


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
) -> Measurement:
    """Measure 1, 10 and 100 queries over one join that differ in their windows: shared and separate, in the kernel and
    on Spark."""
    from kigen_lab.bench.shared_joins.benchmark import SharedJoinsBench, shared_joins_settings
    from kigen_lab.bench.shared_joins.report import draw_shared_joins, shared_joins_table

    settings = shared_joins_settings(quick, out, queries, kind.value, lifetime.value, not kernel_only)
    bench = SharedJoinsBench(settings, say)
    return Measurement(bench.steps, bench.run, shared_joins_table, draw_shared_joins)


SHARED_JOINS = Benchmark("shared-joins", "kigen bench shared-joins --quick --json shared.json", _prepare)
