"""Measures what policies drop when the work of a shared join does not fit: `kigen bench shared-joins --overload`.

Four queries over the join of two live streams differ in their windows. Together they burn 1.6 times what one lane has,
and a BUFFER bounds what may wait. There are two loads. "by window": a slice costs in proportion to the part of the
window that it adds, as in the paper, where a tuple is compared with all tuples of the window. "equal": each query costs
the same, whatever its window, as if the work were done on results. Policies take turns within each trial, and each
trial begins with another one. Every tuple counts once per query: it is processed or dropped. BUFFER bounds what waits,
not what a round has taken, so a policy with long rounds has more room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.registration import Say
from kigen_lab.bench.worker import Contestant
from kigen_lab.bench.workspace import workspace

POLICIES = ("fifo", "mqt", "mandf", "admandf", "salvage")
LOADS = ("by window", "equal")
NARROW_S = 2  # windows up to this length are to lose nothing under mqt
_WARM_S = 3
MOST_ABOVE = 1.05  # drops of admandf over those of the better of fifo and mqt


@dataclass(frozen=True)
class OverloadSettings:
    """What `kigen bench shared-joins --overload` measures."""

    policies: tuple[str, ...] = POLICIES
    loads: tuple[str, ...] = LOADS
    windows_s: tuple[int, ...] = (1, 2, 20, 60)
    rate: int = 40  # tuples per second and stream
    cost_us: int = 20_000  # CPU time per tuple, over all queries
    buffer: int = 40  # tuples per stream that may wait
    seconds: int = 60
    trials: int = 3
    lifetime: str = "dt"
    out: Path = Path("out/bench")

    @property
    def load(self) -> float:
        """Work that arrives, over what one lane can do."""
        return 2 * self.rate * self.cost_us / 1e6

    def costs_us(self, load: str) -> list[int]:
        """Returns the CPU time per tuple of each query, beyond that of the queries with shorter windows."""
        if load == "equal":
            return [self.cost_us // len(self.windows_s)] * len(self.windows_s)
        added_s = [after - before for before, after in pairwise((0, *self.windows_s))]
        return [round(self.cost_us * length / self.windows_s[-1]) for length in added_s]

    def app(self, load: str, seed: int) -> str:
        """Returns the text of the app. `seed` changes the arrivals."""
        columns = "k = 'uniform(0, 20)', v = 'sequence'"
        streams = [
            f"CREATE STREAM {name} (k BIGINT, v BIGINT) FROM synthetic (rate = {self.rate}, arrivals = 'poisson', "
            f"seed = {2 * seed + side}, duration = '{self.seconds} s', {columns}) BUFFER {self.buffer};"
            for side, name in enumerate("ab")
        ]
        queries = [
            f"CREATE QUERY q{i} COST {cost_us} MICROSECONDS AS ISTREAM(SELECT a.v AS x, b.v AS y "
            f"FROM a [RANGE {w} SECONDS], b [RANGE {w} SECONDS] WHERE a.k = b.k);"
            for i, (w, cost_us) in enumerate(zip(self.windows_s, self.costs_us(load), strict=True))
        ]
        return "\n".join(streams + queries)


@dataclass
class OverloadCell:
    """The runs of one policy under one load."""

    policy: str
    trials: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        def middle(value: str) -> list[float]:
            runs = [[query[value] for query in trial["queries"].values()] for trial in self.trials]
            return [median(column) for column in zip(*runs, strict=True)]

        totals = [sum(query["dropped"] for query in trial["queries"].values()) for trial in self.trials]
        return {
            "policy": self.policy,
            "tuples": median(trial["queries"]["q0"]["in"] for trial in self.trials),
            "dropped": middle("dropped"),
            "dropped_in_all": median(totals),
            "p50_ms": middle("p50_ms"),
            "trials": self.trials,
        }


class OverloadBench:
    """Runs all policies in turns."""

    def __init__(self, settings: OverloadSettings, say: Say) -> None:
        self.settings, self._say = settings, say

    @property
    def steps(self) -> int:
        return len(self.settings.loads) * len(self.settings.policies) * self.settings.trials

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        s, machine = self.settings, describe_machine()
        cells = {(load, policy): OverloadCell(policy) for load in s.loads for policy in s.policies}
        with (
            workspace(s.out) as work,
            Contestant("kigen_lab.bench.shared_joins.spark_side", work / "overload.log") as side,
        ):
            fixed = {"lifetime": s.lifetime, "out": str(work / "rows")}
            self._say("warming up")
            side.ask(do="overload", text=replace(s, seconds=_WARM_S).app(s.loads[0], 0), policy="mqt", **fixed)
            for trial in range(s.trials):
                for load in s.loads:
                    for place in range(len(s.policies)):
                        policy = s.policies[(place + trial) % len(s.policies)]
                        self._say(f"costs {load}: {policy}, trial {trial + 1}")
                        ran = side.ask(do="overload", text=s.app(load, trial), policy=policy, **fixed)
                        cells[load, policy].trials.append(ran)
                        advance()
        return {
            "bench": "shared-joins-overload",
            "machine": machine,
            "settings": {**asdict(s), "out": str(s.out), "load": s.load},
            "loads": [self._told(load, [cells[load, policy].to_json() for policy in s.policies]) for load in s.loads],
        }

    def _told(self, load: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
        s = self.settings
        return {
            "costs": load,
            "costs_us": s.costs_us(load),
            "cells": cells,
            "figures": overload_figures(cells, s.windows_s),
            "warnings": wrong_counts(cells),
        }


def overload_figures(cells: list[dict[str, Any]], windows_s: tuple[int, ...]) -> dict[str, Any]:
    """Returns the figures to reach, as far as their policies were measured."""
    total = {cell["policy"]: cell["dropped_in_all"] for cell in cells}
    figures: dict[str, Any] = {}
    if "mqt" in total:
        mqt = next(cell for cell in cells if cell["policy"] == "mqt")
        lost = sum(count for count, window in zip(mqt["dropped"], windows_s, strict=True) if window <= NARROW_S)
        figures["mqt_narrow_dropped"] = lost
        figures["mqt_narrow_met"] = lost == 0
    if {"mqt", "fifo"} <= total.keys():
        figures["mqt_over_fifo"] = round(total["mqt"] / max(1, total["fifo"]), 3)
        figures["mqt_met"] = total["mqt"] <= total["fifo"]
        if "admandf" in total:
            better = min(total["mqt"], total["fifo"])
            figures["admandf_over_better"] = round(total["admandf"] / max(1, better), 3)
            figures["admandf_met"] = total["admandf"] <= MOST_ABOVE * better
    return figures


def wrong_counts(cells: list[dict[str, Any]]) -> list[str]:
    """Reports runs that broke off, and runs whose queries did not all count the same tuples."""
    wrong = []
    for cell in cells:
        for number, trial in enumerate(cell["trials"], 1):
            counts = [query["in"] for query in trial["queries"].values()]
            if not trial["finished"]:
                wrong.append(f"{cell['policy']}, trial {number}: the run did not come to the end of its streams")
            elif len(set(counts)) > 1:
                wrong.append(f"{cell['policy']}, trial {number}: queries counted {counts} tuples")
    return wrong
