"""Measures what a micro-batch costs before it does any work, and in which phases: Kigen and plain stateful queries.

Each side runs in its own process with its own Spark and settings. Rounds alternate, and each round begins with another
contestant. Batches hold a few tuples and run back to back. The first batches of each round do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.floor.plain_floor import FORMS, missing
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.worker import Contestant
from kigen_lab.bench.workspace import workspace

SKIPPED = 5  # batches at the start of each round
PHASES = {
    "batch": "triggerExecution",
    "which input (latestOffset)": "latestOffset",
    "offset log (walCommit)": "walCommit",
    "planning (queryPlanning)": "queryPlanning",
    "job (addBatch)": "addBatch",
    "commit log (commitOffsets)": "commitOffsets",
}
STATE, BETWEEN = "of the job: state commit, sum of partitions", "between commits"


@dataclass(frozen=True)
class FloorSettings:
    """What `kigen bench floor` measures."""

    rounds: int = 3
    batches: int = 40  # per round
    tuples: int = 10  # per batch
    out: Path = Path("out/bench")


def run_floor_bench(settings: FloorSettings, say: Callable[[str], None], advance: Callable[[], None]) -> dict[str, Any]:
    machine = describe_machine()
    forms = [form for form in FORMS if missing(form) is None]
    absent = [why for form in FORMS if (why := missing(form)) is not None]
    names = ["kigen", *forms]
    batches: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with (
        workspace(settings.out) as work,
        Contestant("kigen_lab.bench.lifetimes.kigen_side", work / "kigen.log") as kigen,
        Contestant("kigen_lab.bench.lifetimes.plain_side", work / "plain.log") as plain,
    ):
        for turn in range(settings.rounds):
            for i in range(len(names)):
                name = names[(i + turn) % len(names)]
                say(f"{name}, round {turn + 1}")
                request = {"folder": str(work), "batches": settings.batches + SKIPPED, "tuples": settings.tuples}
                answer = (
                    kigen.ask(do="floor", **request) if name == "kigen" else plain.ask(do="floor", form=name, **request)
                )
                batches[name] += phases_of(answer)
                advance()
    return _result(machine, settings, batches, absent)


def turns(settings: FloorSettings) -> int:
    return settings.rounds * (1 + sum(missing(form) is None for form in FORMS))


def phases_of(answer: dict[str, Any]) -> list[dict[str, float]]:
    """Returns the milliseconds of each phase, one number per batch. A phase that Spark does not report is left out."""
    found = []
    for progress in answer["progress"]:
        if progress["batchId"] < SKIPPED or not progress["numInputRows"]:
            continue
        durations = progress["durationMs"]
        batch = {phase: float(durations[key]) for phase, key in PHASES.items() if key in durations}
        batch[STATE] = float(sum(operator["commitTimeMs"] for operator in progress["stateOperators"]))
        found.append(batch)
    for before, after in pairwise(answer.get("commits_s", ())[SKIPPED:]):
        found.append({BETWEEN: (after - before) * 1000})
    return found


def _result(
    machine: dict[str, Any], settings: FloorSettings, batches: dict[str, list[dict[str, float]]], absent: list[str]
) -> dict[str, Any]:
    contestants: dict[str, dict[str, Any]] = {}
    for name, mine in batches.items():
        samples = {phase: [b[phase] for b in mine if phase in b] for phase in (*PHASES, STATE, BETWEEN)}
        contestants[name] = {
            "batches": len(samples["batch"]),
            "medians_ms": {phase: median(values) for phase, values in samples.items() if values},
            "batch_ms": samples["batch"],
        }
    mine = contestants["kigen"]["medians_ms"]["batch"]
    return {
        "bench": "floor",
        "machine": machine,
        "settings": {"trials": settings.rounds, "batches": settings.batches, "tuples": settings.tuples},
        "phases": [*PHASES, STATE, BETWEEN],
        "contestants": contestants,
        "ratios": {
            name: round(mine / c["medians_ms"]["batch"], 3) for name, c in contestants.items() if name != "kigen"
        },
        "missing": absent,
    }
