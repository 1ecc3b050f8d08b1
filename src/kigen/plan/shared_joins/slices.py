"""Divides the shared joins of a task into the work that policies order: slices, groups and weights.

Slice i of a join holds the matches beyond the (i-1)-th reach up to the i-th, and serves every query whose windows reach
that far. `explain` shows the slices, and policies schedule them. Cost: a walk over the plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from kigen.plan.logical import App, Scan
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin, reach, window_below
from kigen.plan.shared_joins.window_hull import WindowHull, window_hull
from kigen.plan.tasks import Task


@dataclass(frozen=True)
class JoinSlices:
    """Slices of one join. `queries[i]` are those whose windows end with slice i; the slice serves them and all after
    them."""

    join: SharedJoin
    hull: WindowHull  # over the reaches, in microseconds (RANGE) or rows (ROWS)
    queries: tuple[tuple[str, ...], ...]

    @property
    def by_time(self) -> bool:
        return window_below(self.join.join.left).kind.value == "RANGE"

    def served_by(self, place: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.queries[place:] for name in names))


def why_whole(task: Task) -> str | None:
    """Returns why the slices of the task's shared join cannot run separately; None if they can."""
    joins = join_slices(task)
    if len(joins) != 1:
        return "it has several shared joins" if joins else "it has no shared join"
    (slices,), shares = joins, [{n for n in query.root.walk() if isinstance(n, JoinShare)} for query in task.queries]
    streams = slices.join.children
    if not slices.by_time:
        return "its windows are ROWS"
    if not slices.join.is_chain:
        return "its windows do not hold one another"
    if len(slices.queries) < 2:
        return "all its windows reach as far"
    if any(len(mine) != 1 for mine in shares):
        return "a query of the task stands on none of it, or on two parts"
    if not all(isinstance(child, Scan) for child in streams) or {
        c.stream for c in streams if isinstance(c, Scan)
    } != set(task.streams):
        return "its task reads more than the two streams of the join"
    return None


def why_together(task: Task, app: App) -> str | None:
    """Returns why the slices cannot run separately on live streams; None if they can. Tuples must wait in the order of
    their timestamps, so that time alone identifies the tuples that a slice has passed."""
    streams = [app.stream(name) for name in task.streams]
    if (why := why_whole(task)) is not None:
        return why
    if any(stream.source.name.lower() != "synthetic" for stream in streams):
        return "files and streams from other nodes wait for whoever reads them"
    if any(stream.timestamp is not None for stream in streams):
        return "with TIMESTAMP BY, tuples need not wait in the order of their timestamps"
    if app.replicated or any(query.sent for query in task.queries):
        return "other nodes take part in it"
    return None


def join_slices(task: Task) -> tuple[JoinSlices, ...]:
    """Returns the slices of every shared join of the task, in the order of the plans."""
    readers: dict[SharedJoin, dict[int, dict[str, None]]] = {}
    for query in task.queries:
        for node in query.root.walk():
            if isinstance(node, JoinShare):
                readers.setdefault(node.child, {}).setdefault(reach(node.sizes), {})[query.name] = None
    return tuple(
        JoinSlices(join, window_hull(join.reaches), tuple(tuple(names.get(r, ())) for r in join.reaches))
        for join, names in readers.items()
    )
