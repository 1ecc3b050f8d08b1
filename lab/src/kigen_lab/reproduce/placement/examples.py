"""Makes the worked example of the paper on placement, the collision warning of section 4.1, in virtual time.

It must match to the millisecond: for each case the JSON holds what the text says, what came out, and whether they
agree. A source's tuples are one parcel, as the text counts them: handed on together, overtaken between tuples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kigen.placement import Placement
from kigen_lab.plans.paper_example import paper_example
from kigen_lab.reproduce.figure import Request, Table
from kigen_lab.reproduce.placement.allocations import DEADLINE, EXISTING, allocations
from kigen_lab.reproduce.placement.draw import timeline
from kigen_lab.simulate.nodes.node_simulation import simulate_nodes
from kigen_lab.simulate.nodes.outcome import NodesOutcome
from kigen_lab.simulate.nodes.placed import once, system_of

MS = 1000.0
TUPLES = 20
AGES_US = {"v2v": 100 * MS, "centre": 200 * MS}
LIMITS_MS = {"control": 30.0, "warning": 300.0, "information": 3000.0}
_OUTPUTS = {"out1": "control", "out2": "warning", "out3": "information"}
CASES: tuple[tuple[str, str, str, dict[str, float]], ...] = (  # title, allocation, rule, numbers in the text
    ("O3 on node 1 (ExistingAlloc), EDF", EXISTING, "edf", {"control": 50.0}),
    ("O3 on node 1 (ExistingAlloc), control first", EXISTING, "control first", {"warning": 310.0}),
    ("O3 on node 2 (DeadlineAlloc), EDF", DEADLINE, "edf", {"control": 30.0, "warning": 300.0}),
    ("O3 on node 2 (DeadlineAlloc), FIFO", DEADLINE, "fifo", {"wait": 180.0}),
)


def placement_example(request: Request) -> dict[str, Any]:
    cases = []
    for done, (title, allocation, rule, said) in enumerate(CASES):
        request.on_progress("worked example", done, len(CASES))
        placement = allocations(TUPLES)[allocation]
        cases.append({"title": title, "o3": placement.nodes["O3"], "rule": rule, **_case(placement, rule, said)})
    request.on_progress("worked example", len(CASES), len(CASES))
    chosen = [
        {"n": n, "shape": shape, "allocation": name, "o3": placement.nodes["O3"]}
        for n in (15, 20)
        for shape in ("chain", "branches", "outputs")
        for name, placement in allocations(n, shape).items()
    ]
    return {"name": request.name, "v2v_tuples": TUPLES, "limits_ms": LIMITS_MS, "cases": cases, "chosen": chosen}


def _case(placement: Placement, rule: str, said: dict[str, float]) -> dict[str, Any]:
    problem = paper_example(TUPLES)
    system = system_of(problem, placement)
    if (
        rule == "control first"
    ):  # tuples created 100 ms ago are due after the control's 30 ms, if they may use their whole deadline here
        tasks = tuple(replace(t, deadline_us=300 * MS) if t.inputs == ("v2v",) else t for t in system.tasks)
        system, rule = replace(system, tasks=tasks), "edf"
    outcome = simulate_nodes(system, once(problem, AGES_US), rule, record=True)
    found = {_OUTPUTS[d.output]: d.latency_us / MS for d in outcome.deliveries}
    found["wait"] = _wait_us(outcome) / MS
    return {
        "ms": found,
        "late": [name for name, limit in LIMITS_MS.items() if found[name] > limit],
        "published_ms": said,
        "agrees": all(found[name] == value for name, value in said.items()),
        "segments": timeline(outcome),
    }


def _wait_us(outcome: NodesOutcome) -> float:
    """Returns the time from the arrival of V2V tuples on node 2 to the first work on them there."""
    began = min(s.start_us for s in outcome.segments if s.node == "node2" and s.label == "v2v")
    left = max(s.end_us for s in outcome.segments if s.node == "node1" and s.label == "v2v")
    return began - left


def placement_tables(result: dict[str, Any]) -> list[Table]:
    rows = []
    for case in result["cases"]:
        said = ", ".join(f"{name} {value:g}" for name, value in case["published_ms"].items())
        found = [
            f"{case['ms'][name]:g}" + (" late" if name in case["late"] else "")
            for name in ("control", "warning", "information")
        ]
        rows.append((case["title"], *found, f"{case['ms']['wait']:g}", said, "yes" if case["agrees"] else "NO"))
    columns = ("case", "control", "warning", "information", "V2V waits on node 2", "published", "agrees")
    chosen = tuple((f"{c['n']}", c["shape"], c["allocation"], c["o3"]) for c in result["chosen"])
    return [
        Table(f"Worked example, {TUPLES} V2V tuples (ms; limits 30, 300, 3000)", columns, tuple(rows)),
        Table("Where the models put O3", ("V2V tuples", "O7..O21", "allocation", "O3 on"), chosen),
    ]
