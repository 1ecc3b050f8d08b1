"""Makes figure 6 of the paper on placement: EDF over (tuple, task) on one node, and FIFO beside it, in virtual time.

It must match to the millisecond: the JSON holds what the text says, what came out, and whether they agree.
"""

from __future__ import annotations

from typing import Any

from kigen_lab.reproduce.figure import Request, Table
from kigen_lab.reproduce.placement.draw import timeline
from kigen_lab.simulate.nodes.model import NodeTask, Parcel, Release, Sink, Step, System
from kigen_lab.simulate.nodes.node_simulation import simulate_nodes
from kigen_lab.simulate.nodes.outcome import joined

MS = 1000.0
ORDER = (
    ("T1", "p1", 1.0, 3.0),
    ("T1", "p2", 3.0, 5.0),
    ("T2", "p1", 5.0, 6.0),
    ("T2", "p2", 6.0, 7.0),
)  # task, tuple, from, to


def figure_6() -> tuple[System, list[Release]]:
    """Returns the system: O1 feeds O2 (in its task) and O3 (in the other). Times are milliseconds; the text has no
    unit.
    """
    first = NodeTask("T1", "node", ("in",), (Step("O1", MS, ("s1",)), Step("O2", MS, ("s2",))), 2 * MS)
    second = NodeTask("T2", "node", ("s1",), (Step("O3", MS, ("s3",)),), 5 * MS)
    system = System(
        {"node": 1.0}, (first, second), (Sink("left", "s2", "node", 2 * MS), Sink("right", "s3", "node", 6 * MS))
    )
    return system, [Release("in", "node", at * MS, Parcel(label, 1, at * MS)) for label, at in (("p1", 1), ("p2", 3))]


def edf_example(request: Request) -> dict[str, Any]:
    cases = []
    for rule in ("edf", "fifo"):
        outcome = simulate_nodes(*figure_6(), rule, record=True)
        late = [(i.task, i.label) for i in outcome.instances if i.missed]
        case: dict[str, Any] = {"title": rule.upper(), "rule": rule, "segments": timeline(outcome, by_operator=True)}
        case["instances"] = [
            {
                "task": i.task,
                "tuple": i.label,
                "created_ms": i.created_us / MS,
                "deadline_ms": i.deadline_us / MS,
                "end_ms": i.end_us / MS,
                "missed": i.missed,
            }
            for i in outcome.instances
        ]
        if rule == "edf":
            ran = tuple(
                (s.task, s.label, s.start_us / MS, s.end_us / MS) for s in joined(outcome.segments, by_operator=False)
            )
            case["published"] = {"order": ORDER, "missed": []}
            case["agrees"] = ran == ORDER and not late
        else:
            case["published"] = {"missed": [("T1", "p2")]}
            case["agrees"] = late == [("T1", "p2")]
        cases.append(case)
        request.on_progress("figure 6", len(cases), 2)
    return {"name": request.name, "cases": cases}


def edf_tables(result: dict[str, Any]) -> list[Table]:
    tables = []
    for case in result["cases"]:
        rows = tuple(
            (
                f"({i['tuple']}, {i['task']})",
                *(f"{i[key]:g}" for key in ("created_ms", "deadline_ms", "end_ms")),
                "yes" if i["missed"] else "no",
            )
            for i in case["instances"]
        )
        agrees = "as published" if case["agrees"] else "NOT as published"
        tables.append(Table(f"{case['title']}: {agrees}", ("instance", "created", "deadline", "end", "missed"), rows))
    return tables
