"""Measures 1, 10 and 100 queries over one join, shared and separate, in the kernel alone and end to end on Spark.

Contestants take turns within each trial, and each trial begins with another one. All must give the same number of rows.
The figure to reach concerns the kernel's matching and state: a hundred shared queries against the one with the widest
window, which alone does all the matching that the hundred need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kigen.engine import ArgumentError
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.registration import Say
from kigen_lab.bench.shared_joins.app import Family, make_data
from kigen_lab.bench.shared_joins.kernel import FamilyRun, run_family
from kigen_lab.bench.worker import Contestant
from kigen_lab.bench.workspace import workspace

MOST_WORK = 3.0  # join work of the most queries, shared, over that of one query


@dataclass(frozen=True)
class SharedJoinsSettings:
    """What `kigen bench shared-joins` measures."""

    queries: tuple[int, ...] = (1, 10, 100)
    widest: int = 10_000  # tuples per stream in the widest window
    kind: str = "range"
    lifetime: str = "dt"
    each: int = 500_000  # tuples per stream
    batch_rows: int = 100_000
    trials: int = 3
    spark: bool = True
    out: Path = Path("out/bench")


def shared_joins_settings(
    quick: bool, out: Path, queries: list[int] | None, kind: str, lifetime: str, spark: bool
) -> SharedJoinsSettings:
    wrong = [n for n in queries or () if n < 1]
    if wrong:
        raise ArgumentError(f"at least one query is required, not {wrong[0]}")
    counts = tuple(sorted({1, *(queries or SharedJoinsSettings.queries)}))
    if quick:
        return SharedJoinsSettings(counts, 2_000, kind, lifetime, 40_000, 16_000, 1, spark, out)
    return SharedJoinsSettings(counts, kind=kind, lifetime=lifetime, spark=spark, out=out)


@dataclass
class SharedCell:
    """A number of queries, shared or separate."""

    queries: int
    shared: bool
    kernel: list[FamilyRun] = field(default_factory=list)
    spark_rates: list[float] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "shared" if self.shared else "separate"

    def to_json(self) -> dict[str, Any]:
        def middle(pick: Callable[[FamilyRun], float]) -> float:
            return median(pick(run) for run in self.kernel)

        return {
            "queries": self.queries,
            "plan": self.name,
            "kernel_rate": round(middle(lambda r: r.rate)),
            "join_us": round(middle(lambda r: r.join_s / r.tuples * 1e6), 4),
            "share_us": round(middle(lambda r: r.share_s / r.tuples * 1e6), 4),
            "deliver_us": round(middle(lambda r: (r.seconds - r.join_s - r.share_s) / r.tuples * 1e6), 4),
            "held": self.kernel[0].held,
            "spark_rate": round(median(self.spark_rates)) if self.spark_rates else None,
            "rows": self.rows,
            "trials": {
                "kernel": [asdict(run) for run in self.kernel],
                "spark_rate": [round(r) for r in self.spark_rates],
            },
        }


class SharedJoinsBench:
    """Runs all cells in turns."""

    def __init__(self, settings: SharedJoinsSettings, say: Say) -> None:
        self.settings, self._say = settings, say
        self.cells = [
            SharedCell(n, shared) for n in settings.queries for shared in (True, False) if n > 1 or not shared
        ]

    @property
    def steps(self) -> int:
        return len(self.cells) * self.settings.trials * (2 if self.settings.spark else 1)

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        s, machine = self.settings, describe_machine()
        self._kernel(SharedCell(2, True), s.batch_rows)  # libraries load on first use
        for trial in range(s.trials):
            for cell in self._turns(trial):
                self._say(f"{cell.queries} queries, {cell.name}: kernel, trial {trial + 1}")
                cell.kernel.append(self._kernel(cell, s.each))
                self._count(cell, "kernel", cell.kernel[-1].rows)
                advance()
        if s.spark:
            self._on_spark(advance)
        cells = [cell.to_json() for cell in self.cells]
        settings = {**asdict(s), "out": str(s.out)}
        return {
            "bench": "shared-joins",
            "machine": machine,
            "settings": settings,
            "cells": cells,
            **figures_of(cells),
            "warnings": self._wrong(),
        }

    def _turns(self, trial: int) -> list[SharedCell]:
        at = trial % len(self.cells)
        return self.cells[at:] + self.cells[:at]

    def _family(self, cell: SharedCell) -> Family:
        return Family(cell.queries, self.settings.widest, self.settings.kind, cell.shared)

    def _kernel(self, cell: SharedCell, each: int) -> FamilyRun:
        return run_family(self._family(cell), self.settings.lifetime, each, max(1, self.settings.batch_rows // 2))

    def _on_spark(self, advance: Callable[[], None]) -> None:
        s = self.settings
        paths = make_data(s.out / "data", s.each, s.widest, max(1, s.batch_rows // 2))
        with (
            workspace(s.out) as work,
            Contestant("kigen_lab.bench.shared_joins.spark_side", work / "shared-joins.log") as side,
        ):
            fixed = {"lifetime": s.lifetime, "paths": paths, "out": str(work / "rows"), "batch_rows": s.batch_rows}
            self._say("warming up")
            side.ask(do="run", family=asdict(Family(2, s.widest, s.kind)), **fixed)
            for trial in range(s.trials):
                for cell in self._turns(trial):
                    self._say(f"{cell.queries} queries, {cell.name}: Spark, trial {trial + 1}")
                    answer = side.ask(do="run", family=asdict(self._family(cell)), **fixed)
                    cell.spark_rates.append(answer["rate"])
                    self._count(cell, "spark", answer["rows"])
                    advance()

    @staticmethod
    def _count(cell: SharedCell, who: str, rows: int) -> None:
        cell.rows[who if cell.rows.get(who, rows) == rows else f"{who}, another trial"] = rows

    def _wrong(self) -> list[str]:
        """Reports contestants with the same queries whose row counts differ: one of them must be wrong."""
        wrong = []
        for queries in self.settings.queries:
            counts = {
                f"{c.name} {who}": rows for c in self.cells if c.queries == queries for who, rows in c.rows.items()
            }
            if len(set(counts.values())) > 1:
                wrong.append(f"{queries} queries: {', '.join(f'{who} {rows}' for who, rows in counts.items())} rows")
        return wrong


def figures_of(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the cost of the largest number of queries relative to one query, and what sharing saves."""
    one = next(c for c in cells if c["queries"] == 1)
    most = max(c["queries"] for c in cells)
    by_plan = {c["plan"]: c for c in cells if c["queries"] == most}
    if most == 1:
        return {"figures": {}}
    shared, separate = by_plan["shared"], by_plan["separate"]
    figures: dict[str, Any] = {
        "queries": most,
        "join_work_shared_over_one": round(shared["join_us"] / one["join_us"], 3),
        "join_work_and_shares_over_one": round((shared["join_us"] + shared["share_us"]) / one["join_us"], 3),
        "join_work_separate_over_one": round(separate["join_us"] / one["join_us"], 3),
        "state_shared_over_one": round(shared["held"] / max(1, one["held"]), 3),
        "kernel_shared_over_separate": round(shared["kernel_rate"] / separate["kernel_rate"], 3),
        "target": MOST_WORK,
    }
    figures["met"] = figures["join_work_shared_over_one"] <= MOST_WORK
    if shared["spark_rate"] and separate["spark_rate"]:
        figures["spark_shared_over_separate"] = round(shared["spark_rate"] / separate["spark_rate"], 3)
    return {"figures": figures}
