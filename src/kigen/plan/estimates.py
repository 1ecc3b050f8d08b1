"""Rough sizes of relations: how many rows are alive at a time, from windows and declared rates.

Used to order joins and to say what a join costs. Invariant: a size grows with its windows; without a declared rate a
stream counts as one of a thousand tuples per second, so sizes then only tell wider windows from narrower ones. Cost: a
walk over the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kigen.plan.logical import (
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    PlanNode,
    Project,
    Scan,
    SourceStream,
    UnionAll,
    Window,
    WindowKind,
)

Rates = Mapping[str, float]
ENDLESS = 1e12  # rows of what never dies
_RATE = 1000.0
_KEPT = 0.3  # share of rows that a filter or an inequality keeps


def declared_rates(streams: Iterable[SourceStream]) -> dict[str, float]:
    """Tuples per second of the synthetic streams."""
    rates = {s.name: s.source.option("rate") for s in streams if s.source.name.lower() == "synthetic"}
    return {name: float(rate) for name, rate in rates.items() if rate is not None}


def rows_alive(node: PlanNode, rates: Rates) -> float:
    """About how many rows a relation holds at a time; at least 1."""
    if isinstance(node, Window):
        return _of_window(node, rates)
    if isinstance(node, Filter):
        return max(1.0, rows_alive(node.child, rates) * _KEPT)
    if isinstance(node, Project | Distinct):
        return rows_alive(node.child, rates)
    if isinstance(node, Aggregate):
        return max(1.0, rows_alive(node.child, rates) ** 0.5) if node.keys else 1.0
    if isinstance(node, Join):
        how = "equal" if node.left_keys else "ordered" if node.comparisons else "cross"
        return joined_rows(rows_alive(node.left, rates), rows_alive(node.right, rates), how)
    if isinstance(node, UnionAll):
        return min(ENDLESS, sum(rows_alive(child, rates) for child in node.inputs))
    if isinstance(node, Except):
        return rows_alive(node.left, rates)
    if isinstance(node, Intersect):
        return min(rows_alive(node.left, rates), rows_alive(node.right, rates))
    return _RATE  # what another node sends


def most_rows(node: PlanNode, rates: Rates) -> float:
    """How many rows a relation holds at a time if no filter, key or group takes any away."""
    if isinstance(node, Window):
        return _of_window(node, rates)
    if isinstance(node, Aggregate):
        return most_rows(node.child, rates) if node.keys else 1.0
    counts = [most_rows(child, rates) for child in node.children]
    if isinstance(node, UnionAll):
        return min(ENDLESS, sum(counts))
    if isinstance(node, Join):
        return min(ENDLESS, counts[0] * counts[1])
    if isinstance(node, Intersect):
        return min(counts)
    return counts[0] if counts else _RATE


def joined_rows(left: float, right: float, how: str) -> float:
    """Rows of a join on equal keys, on an inequality (`ordered`), or of all pairs (`cross`)."""
    if how == "equal":
        return max(left, right)
    return min(ENDLESS**2, left * right * (_KEPT if how == "ordered" else 1.0))


def one_row(node: PlanNode) -> bool:
    """Whether the relation never holds more than one row."""
    if isinstance(node, Filter | Project | Distinct):
        return one_row(node.child)
    if isinstance(node, Aggregate):
        return not node.keys
    if isinstance(node, Intersect):
        return one_row(node.left) or one_row(node.right)
    if isinstance(node, Except):
        return one_row(node.left)
    return isinstance(node, Window) and node.kind is WindowKind.ROWS and node.size == 1


def _of_window(node: Window, rates: Rates) -> float:
    if node.kind is WindowKind.ROWS:
        return float(node.size)
    if node.kind is WindowKind.NOW:
        return 1.0
    if node.kind is WindowKind.UNBOUNDED:
        return ENDLESS
    if node.kind is WindowKind.RANGE:
        rate = rates.get(node.child.stream, _RATE) if isinstance(node.child, Scan) else _RATE
        return max(1.0, rate * (node.size + (node.slide_us or 0) / 2) / 1e6)
    return node.size * _RATE  # PARTITION BY: its number of partitions is not known
