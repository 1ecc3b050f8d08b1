"""Tells a part of a query how far the query's other streams are, where the part cannot end by itself.

An `RSTREAM[n SECONDS]` gives rows at every multiple of its span until its query ends: at the last timestamp of all
streams of the query. If it runs on another node than its reader, that node may not read all of these streams. So it
gets a clock for each of the others: a stream without tuples, made where the stream is read first, that carries only
watermarks and the end. Invariant: a part with clocks ends when the whole query ends, with the rows that it gives in the
whole. Cost: a watermark row every 20 ms per clock and link, and the part's results wait for the slowest clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from kigen.plan.logical import Expr, Filter, PlanNode, Query, Scan, Window, WindowKind
from kigen.plan.types import Type

_NEVER = Expr("FALSE", Type.BOOLEAN, "FALSE")


def clock_name(stream: str) -> str:
    return f"{stream}.clock"


def clock_plan(scan: Scan) -> PlanNode:
    """Returns the plan of a stream's clock: all of its time, none of its tuples."""
    return Filter(Window(scan, WindowKind.NOW, size=1), _NEVER)  # no window of an app has this size


def is_periodic(node: PlanNode) -> bool:
    """Whether a part of a plan gives rows at every multiple of a span, and never ends by itself."""
    return any(below.acts_periodically for below in node.walk())


def other_streams(node: PlanNode, query: Query, tables: Iterable[str]) -> tuple[Scan, ...]:
    """Returns the streams of a query that a part of it does not read. Tables do not end a query."""
    mine = {below.stream for below in node.walk() if isinstance(below, Scan)} | set(tables)
    found = {n.stream: n for n in query.root.walk() if isinstance(n, Scan) and n.stream not in mine}
    return tuple(found[name] for name in sorted(found))


def periodic_name(name: str, node: PlanNode, query: Query, queries: Iterable[Query], tables: Iterable[str]) -> str:
    """Names what is sent of a periodic part for one query. Queries with other streams end at other times: each gets
    its own copy, and the first has the part's own name."""
    tables = tuple(tables)
    sharing = [other_streams(node, q, tables) for q in queries if node in q.root.walk()]
    place = list(dict.fromkeys(sharing)).index(other_streams(node, query, tables))
    return f"{name}.{place + 1}" if place else name
