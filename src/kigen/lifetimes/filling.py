"""Names what fills an operator's state, in the words of the app file: `bid [UNBOUNDED]`, `GROUP BY auction, bidder:
120,345 groups`."""

from __future__ import annotations

import re

from kigen.plan.labels import describe_node
from kigen.plan.logical import (
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    PlanNode,
    Project,
    Scan,
    ToStream,
    UnionAll,
    Window,
    WindowKind,
)
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin

_WORDS = re.compile(r"\b(range|slide|rows|partition by|now|unbounded)\b")


def inputs_of(node: PlanNode) -> tuple[PlanNode, ...]:
    """The relations that an operator keeps tuples of: a shared join has its windows within itself."""
    return node.join.children if isinstance(node, SharedJoin) else node.children


def filled_by(node: PlanNode) -> str:
    """Where the tuples come from that a node hands up: through filters and projections, the window or the operator
    below."""
    if isinstance(node, Filter | Project):
        return filled_by(node.child)
    if isinstance(node, UnionAll):
        return " and ".join(dict.fromkeys(filled_by(child) for child in node.inputs))
    if isinstance(node, Window):
        return (
            f"{_stream(node.child)} "
            f"[{_WORDS.sub(lambda word: word[0].upper(), describe_node(node).removeprefix('window '))}]"
        )
    if isinstance(node, Aggregate | Distinct | Except | Intersect):
        return f"versions of {_keys(node)}"
    if isinstance(node, JoinShare):
        return f"pairs of {describe_node(node.child)}"
    return f"stream {node.stream}" if isinstance(node, Scan) else f"pairs of {describe_node(node)}"


def group_text(node: PlanNode, count: int) -> str:
    """What an operator keeps of its own, beside the tuples of its inputs: groups, different rows, open pairs."""
    if isinstance(node, Aggregate | Distinct | Except | Intersect):
        one = "group" if isinstance(node, Aggregate) else "row"
        return f"{_keys(node)}: {count:,} {one}{'' if count == 1 else 's'}"
    if isinstance(node, Window):
        return filled_by(node)
    return f"pairs of {describe_node(node)} that are still alive"


def is_window(node: PlanNode) -> bool:
    """Whether the tuples that a node hands up are those of a window, filtered and projected maybe."""
    return is_window(node.child) if isinstance(node, Filter | Project) else isinstance(node, Window)


def is_unbounded(node: PlanNode) -> bool:
    """Whether an UNBOUNDED window lies below, so that what is kept never ends by itself."""
    if isinstance(node, Window):
        return node.kind is WindowKind.UNBOUNDED
    return any(is_unbounded(below) for below in inputs_of(node))


def _stream(node: PlanNode) -> str:
    if isinstance(node, Scan):
        return node.stream
    if isinstance(node, ToStream):
        return f"{node.kind.value.lower()} of {filled_by(node.child)}"
    return describe_node(node)


def _keys(node: PlanNode) -> str:
    if not isinstance(node, Aggregate):
        return type(node).__name__.upper()
    names = [node.child.schema[k].name for k in node.keys]
    return f"GROUP BY {', '.join(names)}" if names else "the aggregate over all"
