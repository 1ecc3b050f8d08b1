"""One line of words for each plan node and stream, as `explain` shows them: the user's own text where there is one."""

from __future__ import annotations

import re

from kigen.plan.logical import (
    AggFunc,
    Aggregate,
    Except,
    Expr,
    Filter,
    Intersect,
    Join,
    PlanNode,
    Project,
    Scan,
    SourceStream,
    ToStream,
    UnionAll,
    Window,
    WindowKind,
)
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin, Sizes, window_below

_UNITS = ((3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"))


def duration_text(us: int) -> str:
    """The shortest exact form: 90 s, 2 min, 1500 us."""
    for size, unit in _UNITS:
        if us and us % size == 0:
            return f"{us // size} {unit}"
    return f"{us} us"


def describe_node(node: PlanNode) -> str:
    """What the node does, over the names its input's columns have."""
    if isinstance(node, Scan):
        return f"stream {node.stream}"
    if isinstance(node, Window):
        return f"window {_window(node)}"
    if isinstance(node, Filter):
        return f"filter {_named(node.predicate, node.child)}"
    if isinstance(node, Project):
        return "project " + ", ".join(_item(e, n, node.child) for e, n in zip(node.exprs, node.names, strict=True))
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, SharedJoin):
        return f"shared {_join(node.join)}"
    if isinstance(node, JoinShare):
        return f"share {sizes_text(node.child, node.sizes)}"
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, ToStream):
        return node.kind.value.lower() + (f" every {duration_text(node.every_us)}" if node.every_us is not None else "")
    if isinstance(node, Except | Intersect):
        return type(node).__name__.lower() + (" all" if node.all else "")
    return "union all" if isinstance(node, UnionAll) else type(node).__name__.lower()


def stream_text(stream: SourceStream) -> str:
    """A stream's clauses in a few words."""
    parts = [f"from {stream.source.name}"]
    if stream.timestamp is not None:
        parts.append(f"timestamp {stream.schema[stream.timestamp].name}")
    if stream.lateness_us:
        parts.append(f"lateness {duration_text(stream.lateness_us)}")
    if stream.ahead_us is not None:
        parts.append(f"ahead {duration_text(stream.ahead_us)}")
    if stream.on_error_skip:
        parts.append("skips bad rows")
    if stream.shed is not None:
        by = f" by {stream.shed.by.text}" if stream.shed.by is not None else ""
        parts.append(f"sheds above {stream.shed.above_per_second:g}/s{by}")
    if stream.buffer is not None:
        parts.append(f"buffer {stream.buffer}")
    return ", ".join(parts)


def _window(node: Window) -> str:
    if node.kind is WindowKind.RANGE:
        slide = f" slide {duration_text(node.slide_us)}" if node.slide_us is not None else ""
        return f"range {duration_text(node.size)}{slide}"
    if node.kind is WindowKind.ROWS:
        return f"rows {node.size}"
    if node.kind is WindowKind.PARTITION_ROWS:
        return f"partition by {', '.join(node.schema[p].name for p in node.partition)} rows {node.size}"
    return str(node.kind.value).lower()


def sizes_text(join: SharedJoin, sizes: Sizes) -> str:
    """Such as range 5 s, or rows 5 and 10 where both windows differ."""
    kind = window_below(join.join.left).kind
    texts = [size_text(kind is WindowKind.RANGE, size) for size in sizes]
    return f"{kind.value.lower()} {' and '.join(dict.fromkeys(texts))}"


def size_text(by_time: bool, size: int) -> str:
    return duration_text(size) if by_time and size else str(size)


def _join(node: Join) -> str:
    """`on` its keys, `by` the comparisons that an index may use, `where` its conditions. Names alone would be
    ambiguous: what is written is what the columns are called on each side."""
    left, right = node.left.schema, node.right.schema
    keys = [f"{left[a].name} = {right[b].name}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    ordered = [f"{left[c.left].name} {c.op} {right[c.right].name}" for c in node.comparisons]
    text = "join" if keys or ordered else "cross join"
    text += f" on {' and '.join(keys)}" if keys else ""
    text += f" by {' and '.join(ordered)}" if ordered else ""
    return text if node.residual is None else f"{text} where {node.residual.text}"


def _aggregate(node: Aggregate) -> str:
    names = [c.name for c in node.child.schema]
    calls = [
        a.func.value.lower() if a.func is AggFunc.COUNT_STAR else f"{a.func.value.lower()}({names[a.arg or 0]})"
        for a in node.aggs
    ]
    keys = f" by {', '.join(names[k] for k in node.keys)}" if node.keys else ""
    return f"aggregate {', '.join(calls)}{keys}" if calls else f"group{keys}"


def _item(expr: Expr, name: str, child: PlanNode) -> str:
    text = _named(expr, child)
    return text if text == name else f"{text} as {name}"


def _named(expr: Expr, child: PlanNode) -> str:
    """The expression over the child's names: a bare column is called what the child calls it now, not what the user
    once wrote."""
    if expr.column is not None:
        return _label(child, expr.column)
    cast = re.fullmatch(r"CAST\(c(\d+) AS (\w+)\)", expr.sql)
    if cast is not None:
        return f"{_label(child, int(cast[1]))}::{cast[2]}"
    return expr.text


def _label(child: PlanNode, column: int) -> str:
    """A column of an aggregate is called by its function and argument, not by the function alone."""
    if isinstance(child, Filter):
        return _label(child.child, column)
    if isinstance(child, Aggregate) and column >= len(child.keys):
        agg = child.aggs[column - len(child.keys)]
        if agg.arg is None:
            return agg.func.value.lower()
        return f"{agg.func.value.lower()}({child.child.schema[agg.arg].name})"
    return child.schema[column].name
