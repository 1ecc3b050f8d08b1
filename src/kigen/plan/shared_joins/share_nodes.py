"""Plan nodes of a join that several queries share: `SharedJoin` finds the matches once, and `JoinShare` selects those
of one query's windows.

Queries differ in the pair (left window, right window). A pair of tuples is in a window if neither tuple was older than
its window when the younger one arrived. A share has exactly these pairs, each alive as long as both tuples are in that
window. Invariant: `join` is over the widest left and the widest right window, so every pair of every share is a match
of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from kigen.plan.durations import size_text
from kigen.plan.logical import Join, PlanNode, Window, WindowKind
from kigen.plan.types import Column, Schema

Sizes = tuple[int, int]  # of the left and the right window: microseconds (RANGE) or rows (ROWS)


def window_below(side: PlanNode) -> Window:
    """Returns the window at the bottom of a side of a shared join; only filters and projections are above it."""
    while not isinstance(side, Window):
        (side,) = side.children
    return side


def reach(sizes: Sizes) -> int:
    """Returns the larger of both windows: how far back a match can lie."""
    return max(sizes)


@dataclass(frozen=True)
class SharedJoin(PlanNode):
    """A join for several queries. Its inputs are the two streams; the windows, filters and projections between them and
    the join belong to it. `windows` are all different, in the order of their reach."""

    join: Join
    windows: tuple[Sizes, ...]

    @property
    def schema(self) -> Schema:
        return self.join.schema

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (window_below(self.join.left).child, window_below(self.join.right).child)

    @property
    def input_relations(self) -> tuple[PlanNode, ...]:
        """Returns its own windows, which lie inside it."""
        return self.join.children

    def label(self) -> str:
        return f"shared {self.join.label()}"

    def rows_text(self) -> str:
        return f"pairs of {self.label()}"

    def state_text(self, count: int) -> str:
        return f"pairs of {self.label()} that are still alive"

    def sizes_text(self, sizes: Sizes) -> str:
        """Writes the sizes of both windows: range 5 s, or rows 5 and 10 where they differ."""
        kind = window_below(self.join.left).kind
        texts = [size_text(kind is WindowKind.RANGE, size) for size in sizes]
        return f"{kind.value.lower()} {' and '.join(dict.fromkeys(texts))}"

    @property
    def is_chain(self) -> bool:
        """Returns whether each window contains those before it, as is always so if both windows of each query are
        equal."""
        return all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(self.windows))

    @property
    def reaches(self) -> tuple[int, ...]:
        return tuple(sorted({reach(sizes) for sizes in self.windows}))


@dataclass(frozen=True)
class JoinShare(PlanNode):
    """Matches of a shared join that are in windows of these `sizes`, with the lifetimes that these windows give
    them."""

    child: SharedJoin
    sizes: Sizes
    names: tuple[str, ...] = field(compare=False)  # of the columns, as in the query's own join

    @property
    def children(self) -> tuple[PlanNode, ...]:
        return (self.child,)

    @property
    def schema(self) -> Schema:
        return tuple(Column(name, column.type) for name, column in zip(self.names, self.child.schema, strict=True))

    def label(self) -> str:
        return f"share {self.child.sizes_text(self.sizes)}"

    def rows_text(self) -> str:
        return self.child.rows_text()

    def state_text(self, count: int) -> str:
        return f"pairs of {self.label()} that are still alive"
