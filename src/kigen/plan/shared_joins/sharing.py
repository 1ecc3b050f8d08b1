"""Turns joins that differ in their windows into shares of one join: `share_joins` rewrites the plans of queries
(docs/decisions/005).

A family consists of the inner equi-joins of the same two streams on the same keys, with both streams in RANGE (or NOW)
windows, or both in ROWS windows. Conditions that all members of a family have stay inside the join; the others are
tested above it, by their query. Such a condition may have to pass projections below the join. It can if they pass its
columns on and cannot raise; else all members must have it. Invariant: at every instant, each query's rows are those of
its own join. Cost: linear in the size of the plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from kigen.plan.expressions.columns import all_of, columns_of, movable, moved
from kigen.plan.expressions.raising import may_raise
from kigen.plan.join_building import types_of
from kigen.plan.logical import Expr, Filter, Join, PlanNode, Project, Query, Window, WindowKind
from kigen.plan.rebuild import with_children
from kigen.plan.shared_joins.hints import Plain, without_computed_hints
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin, Sizes, reach

_KINDS = {WindowKind.RANGE: WindowKind.RANGE, WindowKind.NOW: WindowKind.RANGE, WindowKind.ROWS: WindowKind.ROWS}
Step = Filter | Project


def share_joins(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """Returns the same queries, with joins of one family replaced by shares of one join. Queries with a FIRM deadline
    may lack tuples that others hold, so they share only with queries of the same deadline."""
    groups = {q.sharing_group for q in queries}
    shared = {q.name: q for group in groups for q in _share([q for q in queries if q.sharing_group == group])}
    return tuple(shared[query.name] for query in queries)


def _share(queries: list[Query]) -> list[Query]:
    families: dict[Join, dict[Join, _Member]] = {}
    for query in queries:
        for node in query.root.walk():
            member = _member(node) if isinstance(node, Join) else None
            if member is not None:
                families.setdefault(member.core, {})[member.join] = member
    shared = {join: _Family(tuple(f.values())) for f in families.values() if len(f) > 1 for join in f}
    if not shared:
        return queries
    rewrite = _Rewrite(shared)
    return [replace(query, root=rewrite(query.root)) for query in queries]


# --- what may be shared ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    window: Window  # NOW is a RANGE of one microsecond
    steps: tuple[Step, ...]  # from the window up to the join
    firm: tuple[Step, ...]  # steps that cannot be tested above the join
    loose: tuple[Expr, ...]  # conditions that can, over the columns of the side

    def stacked(self, size: int, with_loose: bool) -> PlanNode:
        node: PlanNode = replace(self.window, size=size)
        for step in self.steps if with_loose else self.firm:
            node = replace(step, child=node)
        return node


@dataclass(frozen=True)
class _Member:
    join: Join
    plain: Plain  # the join without the columns computed for hints
    left: _Side
    right: _Side

    @property
    def sizes(self) -> Sizes:
        return self.left.window.size, self.right.window.size

    @property
    def core(self) -> Join:
        """Returns what all members of a family have in common: joins with equal cores are one family."""
        left, right = self.left.stacked(0, False), self.right.stacked(0, False)
        return replace(self.plain.join, left=left, right=right, residual=None, comparisons=())


def _member(join: Join) -> _Member | None:
    plain = without_computed_hints(join)
    left, right = _side(plain.join.left), _side(plain.join.right)
    if not join.left_keys or left is None or right is None or left.window.kind is not right.window.kind:
        return None
    return _Member(join, plain, left, right)


def _side(node: PlanNode) -> _Side | None:
    steps: list[Step] = []
    while isinstance(node, (Filter, Project)):
        steps.insert(0, node)
        node = node.child
    if not isinstance(node, Window) or node.kind not in _KINDS or node.slide_us is not None:
        return None
    size = 1 if node.kind is WindowKind.NOW else node.size
    loose: list[Expr | None] = [None] * len(steps)
    for i in reversed(range(len(steps))):
        loose[i] = _loose(steps, i)
        if loose[i] is None and _filters_and_may_raise(steps[i]):
            break  # conditions below may guard it
    firm = tuple(step for step, expr in zip(steps, loose, strict=True) if expr is None)
    return _Side(
        replace(node, kind=_KINDS[node.kind], size=size), tuple(steps), firm, tuple(e for e in loose if e is not None)
    )


def _loose(steps: list[Step], place: int) -> Expr | None:
    """Returns the filter at `place` over the columns of the side; None if it cannot be tested there."""
    step = steps[place]
    if not isinstance(step, Filter) or not movable(step.predicate.sql):
        return None
    where = {i: i for i in range(len(step.schema))}
    for above in steps[place + 1 :]:
        if isinstance(above, Project):
            if any(e.column is None and may_raise(e.sql, types_of(above.child.schema)) for e in above.exprs):
                return None
            handed = {e.column: i for i, e in reversed(list(enumerate(above.exprs))) if e.column is not None}
            where = {column: handed[at] for column, at in where.items() if at in handed}
    used = columns_of(step.predicate.sql)
    return moved(step.predicate, where.__getitem__) if used <= where.keys() else None


def _filters_and_may_raise(step: Step) -> bool:
    return isinstance(step, Filter) and may_raise(step.predicate.sql, types_of(step.schema))


# --- the shared join, and the shares above it ------------------------------------------------------------------------


class _Family:
    def __init__(self, members: tuple[_Member, ...]) -> None:
        first = members[0]
        self._inside = [_agree(m.left.loose for m in members), _agree(m.right.loose for m in members)]
        self._residual_inside = _agree(m.plain.join.residual for m in members)
        self._members = {m.join: m for m in members}
        windows = sorted({m.sizes for m in members}, key=lambda sizes: (reach(sizes), sizes))
        left = first.left.stacked(max(w[0] for w in windows), self._inside[0])
        right = first.right.stacked(max(w[1] for w in windows), self._inside[1])
        core = first.plain.join
        hints = core.comparisons if self._residual_inside and _agree(m.plain.join.comparisons for m in members) else ()
        residual = core.residual if self._residual_inside else None
        join = replace(core, left=left, right=right, residual=residual, comparisons=hints)
        self.shared = SharedJoin(join, tuple(windows))

    def share(self, join: Join, shared: SharedJoin) -> PlanNode:
        member = self._members[join]
        plain = member.plain.join
        node: PlanNode = JoinShare(shared, member.sizes, tuple(c.name for c in plain.schema))
        tests = self._tests(member, len(plain.left.schema))
        risky = [test for test in tests if may_raise(test.sql, types_of(node.schema))]
        # Conditions that cannot raise guard those that might.
        for group in ([test for test in tests if test not in risky], risky):
            node = Filter(node, all_of(group)) if group else node
        restore = member.plain.restore
        return Project(node, restore, tuple(c.name for c in join.schema)) if restore else node

    def _tests(self, member: _Member, width: int) -> list[Expr]:
        exprs: list[Expr] = [] if self._inside[0] else list(member.left.loose)
        exprs += [] if self._inside[1] else [moved(e, partial(int.__add__, width)) for e in member.right.loose]
        if member.plain.join.residual is not None and not self._residual_inside:
            exprs.append(member.plain.join.residual)
        return exprs


def _agree(values: Iterable[object]) -> bool:
    first, *rest = values
    return all(value == first for value in rest)


class _Rewrite:
    """Replaces the joins of families in plans; equal nodes become one object."""

    def __init__(self, families: dict[Join, _Family]) -> None:
        self._families = families
        self._done: dict[PlanNode, PlanNode] = {}

    def __call__(self, node: PlanNode) -> PlanNode:
        if node not in self._done:
            self._done[node] = self._new(node)
        return self._done[node]

    def _new(self, node: PlanNode) -> PlanNode:
        family = self._families.get(node) if isinstance(node, Join) else None
        if family is None:
            return self._inside(node)
        assert isinstance(node, Join)
        shared = self(family.shared)  # a stream that it reads may itself come from a shared join
        assert isinstance(shared, SharedJoin)
        return family.share(node, shared)

    def _inside(self, node: PlanNode) -> PlanNode:
        if isinstance(node, SharedJoin):
            join = self._inside(node.join)
            assert isinstance(join, Join)
            return replace(node, join=join)
        return with_children(node, self)
