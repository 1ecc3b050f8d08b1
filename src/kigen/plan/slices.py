"""The shared joins of a task, seen as the work that their policies order: slices, groups and weights.

Slice i of a join holds the matches beyond the (i-1)-th reach up to the i-th, and serves every query whose windows reach so far. `explain`
shows it; policies run over it. Cost: a walk over the plans.
"""

from __future__ import annotations

from dataclasses import dataclass

from kigen.plan.shared_join import JoinShare, SharedJoin, reach, window_below
from kigen.plan.tasks import Task
from kigen.plan.window_hull import WindowHull, window_hull


@dataclass(frozen=True)
class JoinSlices:
    """`queries[i]` are those whose windows end with slice i: it serves them and all after them."""

    join: SharedJoin
    hull: WindowHull  # over the reaches, in microseconds (RANGE) or rows (ROWS)
    queries: tuple[tuple[str, ...], ...]

    @property
    def by_time(self) -> bool:
        return window_below(self.join.join.left).kind.value == "RANGE"

    def served_by(self, place: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.queries[place:] for name in names))


def join_slices(task: Task) -> tuple[JoinSlices, ...]:
    """Of every shared join of the task, in the order they are met."""
    readers: dict[SharedJoin, dict[int, dict[str, None]]] = {}
    for query in task.queries:
        for node in query.root.walk():
            if isinstance(node, JoinShare):
                readers.setdefault(node.child, {}).setdefault(reach(node.sizes), {})[query.name] = None
    return tuple(
        JoinSlices(join, window_hull(join.reaches), tuple(tuple(names.get(r, ())) for r in join.reaches)) for join, names in readers.items()
    )
