"""Measures what policies miss on Spark: twenty queries with deadlines in real time, under bursts, on the same arrivals.

Every query has a stream of its own with bursts of four times the mean rate at its own moments, and all queries cost the
same. Capacity is what `all` processes when there is always more than enough. F is the length of a round with almost no
work. Both are measured first, in the same session. A load is a share of capacity; the load `safe` is 0.85
* (1 - 2F/Dmin). The bound is what any policy must miss of these arrivals at that capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kigen.connectors import open_source
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.plan import bind
from kigen_lab.bench.deadlines.admission_cost import measure_admission
from kigen_lab.bench.deadlines.least_missed import least_missed
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.worker import Contestant
from kigen_lab.bench.workspace import workspace

CLASSES_S = (0.1, 0.25, 0.5, 1.0, 5.0)
QUERIES = 20
SAFE = 0.85
EVERY_S = (8.0, 12.0)  # streams have different periods, so that bursts coincide now and then
LASTING, BURST = 0.1, 6.0  # for a tenth of the time, six times the rate between bursts: four times the mean


@dataclass(frozen=True)
class DeadlinesSettings:
    """What `kigen bench deadlines` measures."""

    seconds: float = 240.0  # per cell
    loads: tuple[float | str, ...] = (0.5, 0.85, 1.3)
    policies: tuple[str, ...] = ("all", "fifo", "edf", "ats1", "pack")
    cost_us: int = 150
    probe_s: float = 40.0
    firm: bool = True
    seed: int = 1
    trials: int = 1  # of each cell, with other arrivals each
    partitions: int | None = None
    out: Path = Path("out/bench")


def app_text(
    rate: float, seconds: float, settings: DeadlinesSettings, arrivals: str = "bursty", cost_us: int | None = None
) -> str:
    """Returns the app. Query i has the deadline of class i modulo the number of classes. `rate` is the rate of each
    stream.
    """
    rng = np.random.default_rng(settings.seed)
    cost, firm = settings.cost_us if cost_us is None else cost_us, "FIRM " if settings.firm else ""
    lines = []
    for i in range(QUERIES):
        every_s = rng.uniform(*EVERY_S)
        lasting_s, phase_s = LASTING * every_s, rng.uniform(0, (1 - LASTING) * every_s)
        bursts = (
            f", burst = {BURST}, every = '{every_s:.3f} s', lasting = '{lasting_s:.3f} s', phase = '{phase_s:.3f} s'"
        )
        lines.append(
            f"CREATE STREAM s{i} (k BIGINT, v DOUBLE) FROM synthetic (rate = {rate:.3f}, arrivals = '{arrivals}', "
            f"seed = {settings.seed}, "
            f"duration = '{seconds} s', k = 'uniform(0, 10)', v = 'normal(20, "
            f"5)'{bursts if arrivals == 'bursty' else ''});"
        )
        burned = f"COST {cost} MICROSECONDS " if cost else ""
        lines.append(
            f"CREATE QUERY q{i} DEADLINE {1000 * CLASSES_S[i % len(CLASSES_S)]:.0f} MILLISECONDS {firm}{burned}AS "
            f"SELECT k, v FROM s{i} [ROWS 10] WHERE v > 25 INTO parquet (path = 'q{i}');"
        )
    return "\n".join(lines)


ALONE_S = 15.0
BATCHES = "pack, --epoch 0"
ALONE = """
CREATE STREAM s (k BIGINT, v DOUBLE) FROM synthetic (rate = 2000000, k = 'sequence', v = 'uniform(0, 100)');
CREATE QUERY q AS SELECT k, v FROM s [ROWS 10] WHERE v > 50 INTO parquet (path = 'q');
"""


class DeadlinesBench:
    """Runs every policy at every load."""

    def __init__(self, settings: DeadlinesSettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say

    @property
    def steps(self) -> int:
        return 4 + len(self.settings.loads) * len(self.settings.policies) * self.settings.trials

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        settings = self.settings
        with (
            workspace(settings.out) as work,
            Contestant("kigen_lab.bench.lifetimes.kigen_side", work / "kigen.log") as kigen,
        ):
            self._say("fixed cost of a round")
            idle = self._ask(kigen, work, app_text(10, settings.probe_s / 2, settings, "constant", 0), "all")
            fixed_s = idle["report"]["batch_ms"]["p50"] / 1000
            advance()
            self._say("capacity: what `all` processes when there is more than enough")
            guess = 2.2e6 / settings.cost_us / QUERIES  # more than two cores can process
            probe = self._ask(
                kigen, work, app_text(guess, settings.probe_s, settings, "constant"), "all", limit_s=settings.probe_s
            )
            capacity = saturated_rate(probe["commits"])
            advance()
            safe = SAFE * (1 - 2 * fixed_s / CLASSES_S[0])
            cells = []
            for load in settings.loads:
                number = safe if load == "safe" else float(load)
                by_policy: dict[str, list[dict[str, Any]]] = {policy: [] for policy in settings.policies}
                for trial in range(settings.trials):
                    mine = replace(settings, seed=settings.seed + trial)
                    text = app_text(number * capacity / QUERIES, settings.seconds, mine)
                    bound = least_sdmr(text, capacity)
                    for policy in settings.policies:
                        self._say(f"load {load}, {policy}, trial {trial + 1}")
                        answer = self._ask(kigen, work, text, policy)
                        by_policy[policy].append(cell_of(str(load), number, policy, answer, bound, settings.seconds))
                        advance()
                cells += [median_cell(trials) for trials in by_policy.values()]
            alone = self._alone(kigen, work)
            advance()
        self._say("what admission costs")
        admission = [measure_admission(policy) for policy in dict.fromkeys(("all", *settings.policies))]
        advance()
        shown = {**asdict(settings), "out": None}
        found = {"fixed_s": fixed_s, "capacity": capacity, "safe": safe, "classes_s": list(CLASSES_S)}
        return {
            "bench": "deadlines",
            "machine": describe_machine(),
            "settings": shown,
            **found,
            "cells": cells,
            "alone": alone,
            "admission": admission,
        }

    def _alone(self, kigen: Contestant, work: Path) -> dict[str, list[float]]:
        """Returns tuples per second of one query without a deadline that always has more than enough to do, in turns:
        with `all`, with `pack`, and with `pack` and a micro-batch per round.
        """
        rates: dict[str, list[float]] = {"all": [], "pack": [], BATCHES: []}
        for trial in range(3):
            for name in rates:
                self._say(f"one query alone, {name}, trial {trial + 1}")
                policy, epoch_s = ("pack", 0.0) if name == BATCHES else (name, None)
                answer = self._ask(kigen, work, ALONE, policy, limit_s=ALONE_S, epoch_s=epoch_s)
                rates[name].append(saturated_rate(answer["commits"]) / QUERIES)
        return rates

    def _ask(
        self,
        kigen: Contestant,
        work: Path,
        text: str,
        policy: str,
        limit_s: float | None = None,
        epoch_s: float | None = None,
    ) -> dict[str, Any]:
        request = {"app": text, "folder": str(work / "app"), "policy": policy, "limit_s": limit_s, "epoch_s": epoch_s}
        return kigen.ask(do="deadlines", partitions=self.settings.partitions, **request)


def saturated_rate(commits: list[tuple[float, int]]) -> float:
    """Returns tuples per second of all queries over the last, long batches, in which the fixed cost matters little.

    Commits count the tuples of one query.
    """
    long = [c for c in commits if c[1] >= commits[-1][1] / 8]
    (first_s, first), (last_s, last) = long[0] if len(long) > 1 else commits[max(0, len(commits) - 2)], commits[-1]
    if last_s <= first_s:
        raise ValueError("the probe was too short: it needs at least two batches; write a longer --seconds")
    return QUERIES * (last - first) / (last_s - first_s)


def least_sdmr(text: str, capacity: float) -> float:
    """Returns the least share of the app's tuples that any policy must miss at a capacity in tuples per second."""
    app = bind(text)
    sources = [open_source(stream, ".", False, 0) for stream in app.streams]
    arrivals = [source.arrivals_us(0, source.total() or 0) for source in sources if isinstance(source, SyntheticSource)]
    deadlines = [query.deadline_us for query in app.queries if query.deadline_us is not None]
    return least_missed(arrivals, deadlines, capacity) / max(1, sum(map(len, arrivals)))


def median_cell(trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the trial with the median SDMR (of an even number, the better one), and the SDMR of all."""
    middle = sorted(trials, key=lambda cell: float(cell["sdmr"]))[(len(trials) - 1) // 2]
    return {**middle, "sdmr_of_trials": [cell["sdmr"] for cell in trials]}


def cell_of(
    name: str, load: float, policy: str, answer: dict[str, Any], bound: float, seconds: float
) -> dict[str, Any]:
    report = answer["report"]
    classes: dict[float, dict[str, float]] = {}
    for index, query in enumerate(report["queries"].values()):
        mine = classes.setdefault(CLASSES_S[index % len(CLASSES_S)], {"in": 0, "missed": 0, "shed": 0, "p95_ms": 0.0})
        for count in ("in", "missed", "shed"):
            mine[count] += query[count]
        mine["p95_ms"] = max(mine["p95_ms"], query["latency_ms"]["p95"] or 0.0)
    total = sum(c["in"] for c in classes.values())
    failed = sum(c["missed"] + c["shed"] for c in classes.values())
    return {
        "load": name,
        "of_capacity": load,
        "policy": policy,
        "sdmr": failed / total,
        "bound": bound,
        "classes": {
            str(c): {**v, "sdmr": (v["missed"] + v["shed"]) / v["in"] if v["in"] else 0.0} for c, v in classes.items()
        },
        "goodput": (total - failed) / seconds,
        "throughput": sum(c["in"] - c["shed"] for c in classes.values()) / report["wall_s"],
        "batches": report["batches"],
        "batch_ms": report["batch_ms"],
        "costs": {key: value for key, value in (report["costs"] or {}).items() if key != "tasks"},
    }
