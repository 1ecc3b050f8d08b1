"""Builds the plan of a random app without the language. So the kernel can be judged alone, and the binder's plan can be
compared with this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oracle.render_sql import DUCKDB_TYPES
from oracle.shapes import Agg, App, Body, Col, Expr, Named, Part, Query, Ref, Select, Source, Windowed, windows_of

from kigen.plan import logical
from kigen.plan.type_texts import declared_type
from kigen.plan.types import Column, Schema

KINDS = {
    "RANGE": logical.WindowKind.RANGE,
    "ROWS": logical.WindowKind.ROWS,
    "PARTITION": logical.WindowKind.PARTITION_ROWS,
}
Part2Sql = Callable[[Part], str]


def plan_of(app: App) -> logical.App:
    planner = Planner(app)
    streams = tuple(
        logical.SourceStream(
            s.name, schema(s.cols), logical.Connector("csv", (("path", f"{s.name}.csv"),)), s.ts, s.lateness_us
        )
        for s in app.streams
    )
    return logical.App(streams, tuple(logical.Query(q.name, planner.root(q)) for q in app.queries))


def schema(cols: Sequence[Col]) -> Schema:
    return tuple(Column(c.name, declared_type(c.type)) for c in cols)


class Planner:
    def __init__(self, app: App) -> None:
        self.app = app

    def root(self, query: Query) -> logical.PlanNode:
        node = self.body(query.body)
        return node if query.kind is None else logical.ToStream(node, logical.StreamKind(query.kind), query.every_us)

    def body(self, body: Body) -> logical.PlanNode:
        if isinstance(body, Select):
            return self._select(body)
        left, right = (widened(self.body(side), body.cols) for side in (body.left, body.right))
        if body.op == "UNION ALL":
            return logical.UnionAll((left, right))
        kind = logical.Except if body.op.startswith("EXCEPT") else logical.Intersect
        return kind(left, right, body.op.endswith("ALL"))

    def window(self, w: Windowed) -> logical.Window:
        declared = self.app.stream(w.source)
        child = (
            self.root(self.app.query(w.source)) if declared is None else logical.Scan(w.source, schema(declared.cols))
        )
        kind = KINDS.get(w.window.kind) or logical.WindowKind(w.window.kind)
        return logical.Window(child, kind, w.window.size, w.window.slide, w.window.partition)

    def _source(self, source: Source) -> logical.PlanNode:
        if isinstance(source, Windowed):
            return self.window(source)
        if isinstance(source, Named):
            return self.root(self.app.query(source.query))
        return self.body(source.body)

    def _select(self, s: Select) -> logical.PlanNode:
        starts = [sum(len(x.cols) for x in s.sources[:i]) for i in range(len(s.sources))]

        def part(p: Part) -> str:
            assert not isinstance(p, Agg)
            return f"c{starts[p.item] + p.col}" if isinstance(p, Ref) else p

        node = self._source(s.sources[0])
        for i, (source, on) in enumerate(zip(s.sources[1:], s.ons, strict=True), 1):
            node = self._join(
                node, self._source(source), i, on if on is not None else s.where, starts, part, on is not None
            )
        if s.where is not None:
            node = logical.Filter(node, expr(s.where, part))
        if s.aggregated:
            node = self._aggregate(s, node, part)
        else:
            node = project(node, [(expr(e, part), c.name) for (e, _), c in zip(s.items, columns(s), strict=True)])
        return logical.Distinct(node) if s.distinct else node

    def _join(
        self,
        left: logical.PlanNode,
        right: logical.PlanNode,
        i: int,
        on: Expr | None,
        starts: Sequence[int],
        part: Part2Sql,
        residual: bool,
    ) -> logical.PlanNode:
        """Builds a join. An equality of columns at the start of the condition becomes the join's key; an ON is also
        tested as a whole."""
        lkeys: tuple[int, ...] = ()
        rkeys: tuple[int, ...] = ()
        if on is not None and len(on.parts) > 2 and on.parts[1] == " = ":
            a, b = on.parts[0], on.parts[2]
            if isinstance(a, Ref) and isinstance(b, Ref) and max(a.item, b.item) == i and a.item != b.item:
                a, b = sorted((a, b), key=lambda r: r.item)
                whole = len(on.parts) == 3 or (isinstance(on.parts[3], str) and on.parts[3] == " AND ")
                if whole:
                    lkeys, rkeys = (starts[a.item] + a.col,), (b.col,)
        return logical.Join(left, right, lkeys, rkeys, expr(on, part) if residual and on is not None else None)

    def _aggregate(self, s: Select, node: logical.PlanNode, part: Part2Sql) -> logical.PlanNode:
        wanted = [e for e, _ in s.items] + ([s.having] if s.having is not None else [])
        aggs = list(dict.fromkeys(p for e in wanted for p in e.parts if isinstance(p, Agg)))
        args = [a.arg for a in aggs if a.arg is not None]
        inputs = [*s.group, *args]
        node = project(node, [(expr(e, part), f"a{k}") for k, e in enumerate(inputs)])
        places = iter(range(len(s.group), len(inputs)))
        planned = tuple(
            logical.Agg(
                logical.AggFunc.COUNT_STAR if a.arg is None else logical.AggFunc(a.func),
                None if a.arg is None else next(places),
                declared_type(a.type),
            )
            for a in aggs
        )
        presence = tuple(dict.fromkeys(self.window(w) for w in windows_of(self.app, s))) if s.is_global else ()
        node = logical.Aggregate(node, tuple(range(len(s.group))), planned, presence)

        def over(p: Part) -> str:
            assert not isinstance(p, Ref)
            return f"c{len(s.group) + aggs.index(p)}" if isinstance(p, Agg) else p

        if s.having is not None:
            node = logical.Filter(node, expr(s.having, over))
        shown = []
        for (e, _), c in zip(s.items, columns(s), strict=True):
            key = s.group.index(e) if e in s.group else None
            shown.append(
                (logical.Expr(f"c{key}", declared_type(e.type), "", key) if key is not None else expr(e, over), c.name)
            )
        return project(node, shown)


def columns(s: Select) -> tuple[Col, ...]:
    from oracle.queries import columns_of

    return columns_of(s)


def expr(e: Expr, part: Part2Sql) -> logical.Expr:
    sql = "".join(part(p) for p in e.parts)
    bare = len(e.parts) == 1 and not isinstance(e.parts[0], str)
    return logical.Expr(
        sql if bare else f"CAST({sql} AS {DUCKDB_TYPES[e.type]})",
        declared_type(e.type),
        sql,
        int(sql[1:]) if bare else None,
    )


def widened(node: logical.PlanNode, cols: Sequence[Col]) -> logical.PlanNode:
    """Casts one side of a set operation to the types of the result."""
    if [c.type.value for c in node.schema] == [c.type for c in cols]:
        return node
    casts = [
        logical.Expr(f"CAST(c{k} AS {DUCKDB_TYPES[c.type]})", declared_type(c.type), "") for k, c in enumerate(cols)
    ]
    return project(node, [(e, c.name) for e, c in zip(casts, cols, strict=True)])


def project(node: logical.PlanNode, shown: Sequence[tuple[logical.Expr, str]]) -> logical.PlanNode:
    return logical.Project(node, tuple(e for e, _ in shown), tuple(n for _, n in shown))
