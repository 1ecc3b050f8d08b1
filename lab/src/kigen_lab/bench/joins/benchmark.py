"""Measures what a join costs relative to its results, in the kernel alone and with the real command, and its memory.

Versions: the join of two aggregates by one key, with more and more versions of it. Queries: a computed key, nested
aggregates and a ranked self-join, at two sizes. The marginal rate between the two sizes does not include the start of
Spark. Queries take turns within each trial, and each trial begins with another one. DuckDB checks the results of the
first trial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.joins.app import QUERIES, JoinQuery, make_data
from kigen_lab.bench.joins.command import CommandRun, run_command
from kigen_lab.bench.joins.kernel import run_apart
from kigen_lab.bench.joins.versions import VersionsRun, flatness, growth, run_versions, summary
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.registration import Say
from kigen_lab.bench.workspace import workspace

MOST_FLATNESS = 1.5  # cost of a version with the most versions over that with the fewest
MOST_WORKERS_MB = 4096
LEAST_RATE = {"computed": 500_000, "nested": 200_000}
_VERSION_TRIALS = 3


@dataclass(frozen=True)
class JoinsSettings:
    """What `kigen bench joins` measures."""

    versions: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    sizes: tuple[int, int] = (200_000, 2_000_000)  # bids
    trials: int = 3
    timeout_s: float = 3_600.0
    lifetimes: tuple[str, ...] = ("dt", "nt")
    out: Path = Path("out/bench")


def joins_settings(quick: bool, out: Path, trials: int | None = None) -> JoinsSettings:
    if quick:
        return JoinsSettings((1_000, 10_000, 100_000), (50_000, 200_000), trials or 1, 900.0, out=out)
    return JoinsSettings(trials=trials or JoinsSettings.trials, out=out)


@dataclass
class QueryCell:
    """Runs of one query."""

    query: JoinQuery
    runs: dict[int, list[CommandRun]] = field(default_factory=dict)  # runs by the number of bids
    kernel: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        sizes = [_size(bids, runs) for bids, runs in sorted(self.runs.items())]
        rates = [run["rate"] for run in self.kernel if run["rate"]]
        first = self.kernel[0] if rates else {}
        return {
            "name": self.query.name,
            "query": self.query.query,
            "sizes": sizes,
            "rate": marginal_rate([(s["bids"], s["wall_s"]) for s in sizes if s["wall_s"] is not None]),
            "kernel_rate": round(median(rates)) if rates else None,
            "kernel_peak_mb": max((run["peak_mb"] for run in self.kernel if run["rate"]), default=None),
            "kernel_rows": first.get("rows"),
            "pairs_per_bid": round(first["pairs_formed"] / first["bids"], 2) if first else None,
            "kernel_trials": self.kernel,
        }


def _size(bids: int, runs: list[CommandRun]) -> dict[str, Any]:
    well = [run for run in runs if not run.why]
    judged = [run.disagreements for run in runs if run.disagreements is not None]
    return {
        "bids": bids,
        "wall_s": round(median(run.wall_s for run in well), 3) if well else None,
        "workers_mb": max(run.workers_mb for run in runs),
        "tree_mb": max(run.tree_mb for run in runs),
        "agrees": not any(judged) if judged else None,
        "disagreements": [sentence for sentences in judged for sentence in sentences],
        "failures": [run.why for run in runs if run.why],
        "trials": [run.to_json() for run in runs],
    }


class JoinsBench:
    """Runs versions first, then the queries."""

    def __init__(self, settings: JoinsSettings, say: Say) -> None:
        self.settings, self._say = settings, say
        self.cells = [QueryCell(query) for query in QUERIES]

    @property
    def steps(self) -> int:
        s = self.settings
        return len(s.versions) * len(s.lifetimes) * _VERSION_TRIALS + len(self.cells) * s.trials * (len(s.sizes) + 1)

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        machine = describe_machine()
        versions = self._versions(advance)
        for trial in range(self.settings.trials):
            for cell in self._turns(trial):
                self._say(f"{cell.query.name}: kernel, trial {trial + 1}")
                cell.kernel.append(run_apart(cell.query, "dt", self.settings.sizes[-1]))
                advance()
        self._commands(advance)
        return result_of(self.settings, machine, versions, [cell.to_json() for cell in self.cells])

    def _versions(self, advance: Callable[[], None]) -> list[dict[str, Any]]:
        s = self.settings
        runs: dict[tuple[str, int], list[VersionsRun]] = {
            (lifetime, n): [] for lifetime in s.lifetimes for n in s.versions
        }
        for lifetime in s.lifetimes:
            run_versions(min(s.versions), lifetime)  # libraries load on first use
        for trial in range(_VERSION_TRIALS):
            for (lifetime, n), mine in runs.items():
                self._say(f"{n:,} versions of one key on each side, {lifetime}, trial {trial + 1}")
                mine.append(run_versions(n, lifetime))
                advance()
        return [summary(n, lifetime, mine) for (lifetime, n), mine in runs.items()]

    def _turns(self, trial: int) -> list[QueryCell]:
        at = trial % len(self.cells)
        return self.cells[at:] + self.cells[:at]

    def _commands(self, advance: Callable[[], None]) -> None:
        s = self.settings
        with workspace(s.out) as work:
            for trial in range(s.trials):
                for cell in self._turns(trial):
                    for bids in s.sizes:
                        self._say(f"{cell.query.name}: kigen run, {bids:,} bids, trial {trial + 1}")
                        paths = make_data(s.out / "data", bids)
                        run = run_command(cell.query, paths, bids, work, trial == 0, s.timeout_s)
                        cell.runs.setdefault(bids, []).append(run)
                        advance()


def marginal_rate(walls: list[tuple[int, float]]) -> int | None:
    """Returns bids per second between two sizes, given their wall times.

    Returns None if there are not two sizes, or if the larger one was not slower.
    """
    if len(walls) < 2:
        return None
    (few, short), (many, long) = min(walls), max(walls)
    return round((many - few) / (long - short)) if long > short else None


def result_of(
    settings: JoinsSettings, machine: dict[str, Any], versions: list[Any], queries: list[Any]
) -> dict[str, Any]:
    flat = {"join": flatness(versions), "kernel": flatness(versions, "kernel_us")}
    return {
        "bench": "joins",
        "machine": machine,
        "settings": {**asdict(settings), "out": str(settings.out)},
        "versions": versions,
        "flatness": flat,
        "growth": {"join": growth(versions), "kernel": growth(versions, "kernel_us")},
        "queries": queries,
        "figures": figures_of(flat["join"], queries),
        "warnings": [
            f"{q['name']}, {s['bids']:,} bids: {w}"
            for q in queries
            for s in q["sizes"]
            for w in (*s["failures"], *s["disagreements"])
        ]
        + [f"{q['name']}, kernel: {run['why']}" for q in queries for run in q["kernel_trials"] if run["rate"] is None],
    }


def figures_of(flat: dict[str, float], queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns each figure to reach, what was reached, and whether that is enough. What was not
    measured is not reached.
    """
    figures = [
        _figure(f"cost of a version, most over fewest, {method}", MOST_FLATNESS, ratio, False)
        for method, ratio in flat.items()
    ]
    for q in queries:
        if q["query"] in LEAST_RATE:
            figures.append(
                _figure(f"{q['name']}: events per second, end to end", LEAST_RATE[q["query"]], q["rate"], True)
            )
        most = max((s["workers_mb"] for s in q["sizes"] if not s["failures"]), default=None)
        figures.append(_figure(f"{q['name']}: MB of the workers", MOST_WORKERS_MB, most, False))
        agreed = sum(s["agrees"] is True for s in q["sizes"])
        figures.append(_figure(f"{q['name']}: sizes at which DuckDB agrees", len(q["sizes"]), agreed, True))
    return figures


def _figure(what: str, target: float, reached: float | None, least: bool) -> dict[str, Any]:
    met = reached is not None and (reached >= target if least else reached <= target)
    return {"what": what, "target": target, "least": least, "reached": reached, "met": met}
