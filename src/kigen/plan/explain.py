"""Shows the plan to people and tools: a tree of each query as text, as JSON or as a mermaid graph.

Invariant: a sub-plan that is used more than once is shown once, at its first use, and later uses refer to its number
(`#1`). So each sub-plan that is shown once runs once. Below a shared join are the widest windows and its slices, which
show what MQT runs first and how urgent it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kigen.plan.durations import duration_text
from kigen.plan.logical import App, PlanNode, Query, Scan, SourceStream
from kigen.plan.shared_joins.slices_text import slice_lines, slices_json
from kigen.plan.tasks import Task, extract_tasks
from kigen.plan.types import Schema

FORMATS = ("text", "json", "mermaid")


def explain(app: App, format: str = "text") -> str:
    """Shows the streams, the tasks with their deadlines, and the plan of every query as text, json or mermaid."""
    if format == "text":
        return _text(app)
    if format == "json":
        return json.dumps(_json(app), indent=2, ensure_ascii=False) + "\n"
    if format == "mermaid":
        return _mermaid(app)
    raise ValueError(f"the format of explain must be one of {', '.join(FORMATS)}; got {format!r}")


def shared_numbers(app: App) -> dict[PlanNode, int]:
    """Numbers the sub-plans (windows and above) that are used more than once, in the order of the tree."""
    uses: Counter[PlanNode] = Counter()
    order: dict[PlanNode, None] = {}

    def visit(node: PlanNode) -> None:
        uses[node] += 1
        if uses[node] == 1:
            for child in node.shown_children:
                visit(child)
            order[node] = None

    for task in extract_tasks(app):
        for query in task.queries:
            visit(query.root)
    several = [n for n in order if uses[n] > 1 and not isinstance(n, Scan)]
    return {node: i for i, node in enumerate(several, 1)}


def tree_walk(root: PlanNode) -> Iterator[PlanNode]:
    """Yields all nodes that are shown below a root, and the root, children first; a node used twice may come twice."""
    for child in root.shown_children:
        yield from tree_walk(child)
    yield root


# --- text --------------------------------------------------------------------------------------------------------


def _text(app: App) -> str:
    lines = ["streams"]
    lines += [f"  {s.name} ({_columns(s.schema)}) {_stream_text(s)}" for s in app.streams]
    numbers = shared_numbers(app)
    shown: set[PlanNode] = set()
    for task in extract_tasks(app):
        lines += ["", _task_line(task)]
        notes = slice_lines(task, app)
        for query in task.queries:
            lines += [f"  query {_query_line(query)}", *_tree(query.root, numbers, notes, shown, "    ", "    ")]
    return "\n".join(lines) + "\n"


def _task_line(task: Task) -> str:
    deadline = f", deadline {duration_text(task.deadline_us)}" if task.deadline_us is not None else ""
    return f"{task.name}: reads {', '.join(task.streams)}{deadline}"


def _query_line(query: Query) -> str:
    parts = [f"{query.name} ({_columns(query.schema)})"]
    if query.deadline_us is not None:
        parts.append(f"deadline {duration_text(query.deadline_us)}{' firm' if query.firm else ''}")
    if query.cost_us is not None:
        parts.append(f"cost {query.cost_us} us a tuple")
    if query.into is not None:
        options = ", ".join(f"{k} = {v!r}" for k, v in query.into.options)
        parts.append(f"into {query.into.name}" + (f" ({options})" if options else ""))
    return "  ".join(parts)


def _tree(
    node: PlanNode,
    numbers: dict[PlanNode, int],
    notes: dict[PlanNode, list[str]],
    shown: set[PlanNode],
    first: str,
    rest: str,
) -> list[str]:
    number = f" #{numbers[node]}" if node in numbers else ""
    if number and node in shown:
        label = node.label()
        return [f"{first}{label if len(label) <= 60 else label[:57] + '...'}{number} (shown above)"]
    shown.add(node)
    lines = [f"{first}{node.label()}{number}"]
    children = node.shown_children
    lines += [f"{rest}{'│  ' if children else '   '}{note}" for note in notes.get(node, ())]
    for i, child in enumerate(children):
        last = i == len(children) - 1
        lines += _tree(
            child, numbers, notes, shown, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")
        )
    return lines


def _stream_text(stream: SourceStream) -> str:
    """Describes the clauses of a stream in a few words."""
    parts = [f"{'table ' if stream.table else ''}from {stream.source.name}"]
    if stream.key:
        parts.append(f"key {', '.join(stream.schema[c].name for c in stream.key)}")
    if stream.refresh_us is not None:
        parts.append(f"refresh every {duration_text(stream.refresh_us)}")
    if stream.timestamp is not None:
        parts.append(f"timestamp {stream.schema[stream.timestamp].name}")
    if stream.lateness_us:
        parts.append(f"lateness {duration_text(stream.lateness_us)}")
    if stream.idle_us is not None:
        parts.append(f"idle {duration_text(stream.idle_us)}")
    if stream.ahead_us is not None:
        parts.append(f"ahead {duration_text(stream.ahead_us)}")
    if stream.on_error_skip:
        parts.append("skips bad rows" if stream.error_into is None else f"bad rows into {stream.error_into.name}")
    if stream.late_into is not None:
        parts.append(f"late rows into {stream.late_into.name}")
    if stream.shed is not None:
        by = f" by {stream.shed.by.text}" if stream.shed.by is not None else ""
        parts.append(f"sheds above {stream.shed.above_per_second:g}/s{by}")
    if stream.buffer is not None:
        parts.append(f"buffer {stream.buffer}")
    return ", ".join(parts)


def _columns(schema: Schema) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in schema)


# --- json --------------------------------------------------------------------------------------------------------


def _json(app: App) -> dict[str, Any]:
    ids: dict[PlanNode, int] = {}
    tasks = extract_tasks(app)
    queries = {query.name: query for task in tasks for query in task.queries}
    for query in app.queries:
        for node in tree_walk(queries[query.name].root):
            ids.setdefault(node, len(ids))
    return {
        "streams": [
            {"name": s.name, "columns": _json_schema(s.schema), "source": s.source.name, "about": _stream_text(s)}
            for s in app.streams
        ],
        "nodes": [
            {
                "id": i,
                "operator": type(node).__name__,
                "label": node.label(),
                "columns": _json_schema(node.schema),
                "inputs": [ids[c] for c in node.shown_children],
            }
            for node, i in ids.items()
        ],
        "queries": [
            {
                "name": q.name,
                "root": ids[queries[q.name].root],
                "columns": _json_schema(q.schema),
                "stream": q.root.is_stream,
                "deadline_us": q.deadline_us,
                "firm": q.firm,
                "cost_us": q.cost_us,
                "into": None if q.into is None else {"connector": q.into.name, **dict(q.into.options)},
            }
            for q in app.queries
        ],
        "tasks": [
            {
                "name": t.name,
                "queries": [q.name for q in t.queries],
                "streams": list(t.streams),
                "deadline_us": t.deadline_us,
            }
            for t in tasks
        ],
        "shared_joins": [
            {"task": t.name, "node": ids[join], **slices} for t in tasks for join, slices in slices_json(t, app)
        ],
    }


def _json_schema(schema: Schema) -> list[dict[str, str]]:
    return [{"name": c.name, "type": c.type.value} for c in schema]


# --- mermaid -----------------------------------------------------------------------------------------------------


def _mermaid(app: App) -> str:
    """Draws data flowing downwards. A task is a box; a shared sub-plan is one node with several arrows."""
    ids: dict[PlanNode, str] = {}
    edges: list[str] = []
    lines = ["flowchart TD"]
    for task in extract_tasks(app):
        lines.append(f'  subgraph {task.name}["{_safe(_task_line(task))}"]')
        notes = slice_lines(task, app)
        for query in task.queries:
            for node in tree_walk(query.root):
                if node in ids:
                    continue
                ids[node] = f"n{len(ids)}"
                if not isinstance(node, Scan):
                    text = "<br/>".join(_safe(line) for line in (node.label(), *notes.get(node, ())))
                    lines.append(f'    {ids[node]}["{text}"]')
                edges += [f"  {ids[child]} --> {ids[node]}" for child in dict.fromkeys(node.shown_children)]
            lines.append(f'    q_{_word(query.name)}(["{_safe(_query_line(query))}"])')
            edges.append(f"  {ids[query.root]} --> q_{_word(query.name)}")
        lines.append("  end")
    lines += [f'  {name}[/"{_safe(node.label())}"/]' for node, name in ids.items() if isinstance(node, Scan)]
    return "\n".join([*lines, *edges]) + "\n"


def _safe(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")


def _word(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)
