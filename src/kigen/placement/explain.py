"""Shows a placement as text, JSON or a mermaid graph: the plan over the nodes, sub-deadlines of operators, loads.

Invariant: the JSON holds everything a node needs to run its part: its tasks, their sub-deadlines, and the routes of
streams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kigen.placement.problem import Problem
from kigen.placement.result import PlacedTask, Placement


def time_text(us: float) -> str:
    """Formats a time with four significant figures and a suitable unit."""
    for size, unit in ((60e6, "min"), (1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.4g} {unit}"
    return f"{us:.4g} us"


def traffic_text(problem: Problem, amount: float) -> str:
    """Formats an amount of traffic."""
    unit = "B/s" if any(p is not None for p in problem.period_us.values()) else "B"
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= size:
            return f"{amount / size:.3g} {prefix}{unit}"
    return f"{amount:.3g} {unit}"


def placement_text(problem: Problem, placed: Placement, labels: Mapping[str, str] | None = None) -> str:
    """Returns the placement as text."""
    lines = [verdict(problem, placed)]
    lines += [f"  {note}" for note in placed.notes]
    for node in problem.nodes:
        load = placed.node_loads[node.name]
        cpu = "" if load.cpu is None else f", CPU {100 * load.cpu:.1f} %"
        lines += [
            "",
            f"node {node.name}: speed {node.speed:g}{cpu}, at most {100 * load.demand:.1f} % of any span of time due",
        ]
        born = [s.name for s in problem.streams if node.name in s.born]
        if born:
            lines.append(f"  born here: {', '.join(born)}")
        for task in placed.tasks_of(node.name):
            lines += _task_lines(problem, placed, task, labels or {})
        wanted = [f"{o.name} within {time_text(o.deadline_us)}" for o in problem.outputs if o.sink == node.name]
        if wanted:
            lines.append(f"  results wanted here: {', '.join(wanted)}")
    if placed.link_loads:
        lines += ["", "links"]
    for link in placed.link_loads:
        used = "" if link.used is None else f", {100 * link.used:.1f} % of the bandwidth"
        lines.append(
            f"  {link.source} -> {link.target}: {', '.join(link.streams)}: {traffic_text(problem, link.traffic)}{used}"
        )
    return "\n".join(lines) + "\n"


def verdict(problem: Problem, placed: Placement) -> str:
    """Returns one line: whether the placement holds, and how good it is."""
    holds = "all deadlines hold" if placed.holds else "NOT ALL DEADLINES HOLD"
    gap = "proven least" if placed.gap < 1e-6 else f"at most {100 * placed.gap:.2g} % above the least"
    if placed.method == "sqpr":
        gap = "deadlines not looked at"
    return (
        f"placement ({placed.method}): {holds}; traffic {traffic_text(problem, placed.traffic)}, {gap}; slack "
        f"{100 * placed.slack:.1f} %"
    )


def _task_lines(problem: Problem, placed: Placement, task: PlacedTask, labels: Mapping[str, str]) -> list[str]:
    head = f"  task {task.name}: reads {', '.join(task.inputs)}, sub-deadline {time_text(task.sub_deadline_us)}"
    head += f", work {time_text(task.work_us)}"
    if task.period_us is not None:
        head += f" every {time_text(task.period_us)}"
    lines = [head]
    for o in task.operators:
        about = f"  {labels[o]}" if o in labels else ""
        lines.append(f"    {o}{about}  [{time_text(placed.operator_us[o])}]")
    return lines


def placement_json(problem: Problem, placed: Placement, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the placement as JSON."""
    return {
        "holds": placed.holds,
        "notes": list(placed.notes),
        "method": placed.method,
        "traffic": placed.traffic,
        "bound": placed.bound,
        "gap": placed.gap,
        "spread": placed.spread,
        "slack": placed.slack,
        "nodes": [
            {
                "name": n.name,
                "speed": n.speed,
                "cpu": placed.node_loads[n.name].cpu,
                "demand": placed.node_loads[n.name].demand,
                "tasks": [_task_json(t) for t in placed.tasks_of(n.name)],
            }
            for n in problem.nodes
        ],
        "operators": [
            {
                "name": o.name,
                "label": (labels or {}).get(o.name),
                "node": placed.nodes[o.name],
                "inputs": list(o.inputs),
                "output": o.output,
                "sub_deadline_us": placed.operator_us[o.name],
                "work_us": problem.work_us[o.name],
                "shares_us": {out: us for (out, name), us in placed.sub_deadlines_us.items() if name == o.name},
            }
            for o in problem.operators
        ],
        "routes": {s: [list(link) for link in links] for s, links in placed.routes.items()},
        "links": [
            {"from": l.source, "to": l.target, "streams": list(l.streams), "traffic": l.traffic, "used": l.used}
            for l in placed.link_loads
        ],
        "outputs": [
            {"name": o.name, "stream": o.stream, "sink": o.sink, "deadline_us": o.deadline_us} for o in problem.outputs
        ],
    }


def _task_json(task: PlacedTask) -> dict[str, Any]:
    return {
        "name": task.name,
        "operators": list(task.operators),
        "inputs": list(task.inputs),
        "outputs": list(task.outputs),
        "sub_deadline_us": task.sub_deadline_us,
        "work_us": task.work_us,
        "tuple_us": task.tuple_us,
        "period_us": task.period_us,
    }


def placement_mermaid(problem: Problem, placed: Placement, labels: Mapping[str, str] | None = None) -> str:
    """Draws nodes as boxes, tasks as boxes inside, and streams as arrows, bold where they cross a link."""
    ids = {("op", o): f"o{i}" for i, o in enumerate(problem.operator)}
    ids |= {("stream", s.name): f"s{i}" for i, s in enumerate(problem.streams) if s.born}
    ids |= {("out", o.name): f"r{i}" for i, o in enumerate(problem.outputs)}
    lines = ["flowchart LR"]
    for i, node in enumerate(problem.nodes):
        load = placed.node_loads[node.name]
        share = f"CPU {100 * load.cpu:.0f} %" if load.cpu is not None else f"due {100 * load.demand:.0f} %"
        lines.append(f'  subgraph n{i}["{_plain(node.name)}: {share}"]')
        lines += [
            f'    {ids["stream", s.name]}[("{_plain(s.name)}")]'
            for s in problem.streams
            if s.born and s.born[0] == node.name
        ]
        for task in placed.tasks_of(node.name):
            lines.append(f'    subgraph {task.name}["{task.name}: {time_text(task.sub_deadline_us)}"]')
            for o in task.operators:
                text = (labels or {}).get(o, o)
                lines.append(f'      {ids["op", o]}["{_plain(text)}<br/>{time_text(placed.operator_us[o])}"]')
            lines.append("    end")
        for output in problem.outputs:
            if output.sink == node.name:
                lines.append(
                    f'    {ids["out", output.name]}(["{_plain(output.name)}: {time_text(output.deadline_us)}"])'
                )
        lines.append("  end")
    for op in problem.operators:
        for s in op.inputs:
            maker = problem.producer.get(s)
            start, at = (
                (ids["stream", s], problem.stream[s].born[0])
                if maker is None
                else (ids["op", maker], placed.nodes[maker])
            )
            lines.append(_arrow(problem, placed, s, start, ids["op", op.name], at != placed.nodes[op.name]))
    for output in problem.outputs:
        maker = problem.producer.get(output.stream)
        start = ids["stream", output.stream] if maker is None else ids["op", maker]
        at = problem.stream[output.stream].born[0] if maker is None else placed.nodes[maker]
        lines.append(_arrow(problem, placed, output.stream, start, ids["out", output.name], at != output.sink))
    return "\n".join(lines) + "\n"


def _arrow(problem: Problem, placed: Placement, stream: str, start: str, end: str, crosses: bool) -> str:
    if not crosses:
        return f"  {start} --> {end}"
    return f'  {start} == "{traffic_text(problem, problem.traffic[stream])}" ==> {end}'


def _plain(text: str) -> str:
    return text.replace('"', "'").replace("<", "&lt;").replace(">", "&gt;")


def placement_to_text(problem: Problem, placed: Placement, format: str, labels: Mapping[str, str] | None = None) -> str:
    """Returns the placement in the given format: text, json or mermaid."""
    if format == "json":
        return json.dumps(placement_json(problem, placed, labels), indent=2) + "\n"
    return (placement_mermaid if format == "mermaid" else placement_text)(problem, placed, labels)
