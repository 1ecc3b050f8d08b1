"""Replaces SetApart, the mark of `ON ERROR SKIP | INTO` on a query: a condition that cannot fail itself leaves out the
rows on which an expression fails.

| node | with ON ERROR SKIP |
|---|---|
| Filter, and conditions of a Join | a condition that fails is not true |
| Project | a filter below it lets only rows through on which no expression fails |
| Aggregate | a SUM beyond BIGINT is NULL, and a filter above takes the group's row away meanwhile |

`ON ERROR INTO` adds a query that gives the rows left out. Invariant: which rows are left out depends on the rows alone,
so results stay the same however input is cut into batches. It runs after the other rules, which may merge conditions:
DuckDB evaluates the parts of one condition in any order. Cost: an expression that might fail is evaluated twice; others
are untouched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from kigen.plan.dropped_rows import error_schema
from kigen.plan.expressions.columns import all_of, bare
from kigen.plan.expressions.conditions import tokens_of
from kigen.plan.logical import (
    NULL_ON_OVERFLOW,
    Agg,
    AggFunc,
    Aggregate,
    Expr,
    Filter,
    Join,
    OuterJoin,
    PlanNode,
    Project,
    Query,
    SetApart,
    StreamKind,
    ToStream,
    UnionAll,
    errors_name,
)
from kigen.plan.rebuild import with_children
from kigen.plan.rewrite.filters import parts
from kigen.plan.types import Type

_YEARS = "-62135596800000000 AND 253402300799999999"  # microseconds of the years 1 to 9999, which a TIMESTAMP has
_NULL = re.compile(r"CAST\(NULL AS \w+\)", re.IGNORECASE)
_ALONE = (" IS NULL", " IS NOT TRUE")  # how the conditions end under which a row of an outer join has no partner
_HARMLESS = frozenset({
    TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.IS,
    TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT,
    TokenType.GTE, TokenType.IN, TokenType.BETWEEN, TokenType.COMMA, TokenType.L_PAREN, TokenType.R_PAREN,
})  # fmt: skip


def set_apart(queries: tuple[Query, ...]) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """Returns the queries without SetApart, and one query per `ON ERROR INTO` that gives the rows which failed."""
    found = _Rewritten()
    done = tuple(replace(query, root=found.node(query.root, None)) for query in queries)
    by_name = {query.name: query for query in queries}
    failed = [_failed_rows(by_name[mark.query], mark, rows) for mark, rows in found.failed.items() if mark.into]
    return done, tuple(failed)


class _Rewritten:
    def __init__(self) -> None:
        self.failed: dict[SetApart, dict[PlanNode, None]] = {}  # by their mark: relations of the rows that fail
        self._done: dict[tuple[int, SetApart | None], PlanNode] = {}  # by identity: equal nodes may differ in names
        self._kept: list[PlanNode] = []  # so that no identity is used twice

    def node(self, node: PlanNode, mark: SetApart | None) -> PlanNode:
        """Returns the node for a query of which the mark is the nearest one above."""
        key = (id(node), mark)
        if key not in self._done:
            self._kept.append(node)
            if isinstance(node, SetApart):
                rows = self.failed.setdefault(node, {})
                below = self.node(node.child, node)
                if not rows:  # nothing can fail; INTO still has its output
                    rows[_told(Filter(below, Expr("FALSE", Type.BOOLEAN, "never")), node, [])] = None
                self._done[key] = below
            else:
                visit = self._of_outer_join if mark is not None and isinstance(node, OuterJoin) else self.node
                new = with_children(node, lambda child: visit(child, mark))
                self._done[key] = new if mark is None else self._careful(new, mark)
        return self._done[key]

    def _of_outer_join(self, node: PlanNode, mark: SetApart | None) -> PlanNode:
        """Returns an input of an outer join. A row that is alone because its key is NULL, or its own condition not
        true, is alone if they fail, too."""
        if not isinstance(node, Project) or not isinstance(node.child, Filter):
            return self.node(node, mark)
        alone = [_tried(part, part.sql.endswith(_ALONE)) for part in parts(node.child.predicate, node.child.schema)]
        return replace(node, child=Filter(self.node(node.child.child, mark), all_of(alone)))

    def _careful(self, node: PlanNode, mark: SetApart) -> PlanNode:
        if isinstance(node, Filter) and may_fail(node.predicate):
            self._fail(node.child, mark, [node.predicate])
            return replace(node, predicate=_tried(node.predicate))
        if isinstance(node, Project):
            risky = [e for e in dict.fromkeys(node.exprs) if may_fail(e)]
            if not risky:
                return node
            self._fail(node.child, mark, risky)
            return replace(node, child=Filter(node.child, all_of([_succeeds(e) for e in risky])))
        if isinstance(node, Join) and node.residual is not None and may_fail(node.residual):
            if mark.into is not None:
                failing = replace(node, residual=_fails(node.residual), comparisons=())
                self.failed[mark][_told(failing, mark, [node.residual])] = None
            return replace(node, residual=_tried(node.residual))
        if isinstance(node, Aggregate):
            return self._aggregate(node, mark)
        return node

    def _fail(self, child: PlanNode, mark: SetApart, exprs: list[Expr]) -> None:
        if mark.into is not None:
            sql = " OR ".join(f"({_fails(e).sql})" for e in exprs)
            rows = Filter(child, Expr(sql, Type.BOOLEAN, " or ".join(_fails(e).text for e in exprs)))
            self.failed[mark][_told(rows, mark, exprs)] = None

    def _aggregate(self, node: Aggregate, mark: SetApart) -> PlanNode:
        exact = [agg.type is Type.BIGINT or agg.type.is_decimal for agg in node.aggs]
        sums = [i for i, agg in enumerate(node.aggs) if agg.func is AggFunc.SUM and exact[i]]
        if not sums:
            return node
        aggs = [replace(agg, parameter=NULL_ON_OVERFLOW) if i in sums else agg for i, agg in enumerate(node.aggs)]
        counts = [Agg(AggFunc.COUNT, node.aggs[i].arg, Type.BIGINT, node.aggs[i].distinct) for i in sums]
        both = replace(node, aggs=(*aggs, *counts))
        first, width = len(node.keys), len(node.schema)
        lost = [f"c{first + i} IS NULL AND c{width + k} > 0" for k, i in enumerate(sums)]
        columns = tuple(bare(node.schema, i) for i in range(width))
        names = tuple(c.name for c in node.schema)
        told = "SUM exceeds BIGINT"
        if mark.into is not None:
            rows = Filter(both, Expr(" OR ".join(f"({sql})" for sql in lost), Type.BOOLEAN, told))
            self.failed[mark][_told(Project(rows, columns, names), mark, [], told)] = None
        stays = Expr(" AND ".join(f"NOT ({sql})" for sql in lost), Type.BOOLEAN, "SUM does not exceed BIGINT")
        return Project(Filter(both, stays), columns, names)


def may_fail(expr: Expr) -> bool:
    """Returns whether the expression could fail on some row: all but columns, constants, comparisons and their
    combinations could. Overflow counts here (it does not in kigen.plan.expressions.raising)."""
    if expr.column is not None or _NULL.fullmatch(expr.sql):
        return False
    tokens = tokens_of(expr.sql)
    if tokens is None or not all(token.token_type in _HARMLESS for token in tokens):
        return True
    calls = pairwise(tokens)
    return any(a.token_type == TokenType.VAR and b.token_type == TokenType.L_PAREN for a, b in calls)


def _tried(condition: Expr, failed: bool = False) -> Expr:
    """Returns a condition that is true where this one is, and never fails. `failed` is what it says instead."""
    if not may_fail(condition):
        return condition
    return Expr(f"COALESCE(TRY({condition.sql}), {str(failed).upper()})", Type.BOOLEAN, condition.text)


def _succeeds(expr: Expr) -> Expr:
    sql = f"TRY(({expr.sql}) IS NULL) IS NOT NULL"
    if expr.type is Type.TIMESTAMP:
        sql = f"COALESCE(TRY(COALESCE(epoch_us({expr.sql}) BETWEEN {_YEARS}, TRUE)), FALSE)"
    return Expr(sql, Type.BOOLEAN, f"{expr.text} does not fail")


def _fails(expr: Expr) -> Expr:
    return Expr(f"NOT ({_succeeds(expr).sql})", Type.BOOLEAN, f"{expr.text} fails")


def _told(rows: PlanNode, mark: SetApart, exprs: Sequence[Expr], reason: str = "") -> PlanNode:
    """Returns the rows as `ON ERROR INTO` writes them: the row as text, the query, and what failed."""
    shown = [
        f"{_quoted(rows.column_label(i) + ' = ')} || COALESCE(CAST(c{i} AS VARCHAR), 'NULL')"
        for i in range(len(rows.schema))
    ]
    row = " || ', ' || ".join(shown) or "''"
    why = _quoted(reason)
    for expr in reversed(exprs):
        why = f"CASE WHEN {_fails(expr).sql} THEN {_quoted(expr.text + ' failed')} ELSE {why} END"
    sqls = (row, _quoted(f"query {mark.query}"), why)
    texts = ("the row", "the query", "the reason")
    exprs = [Expr(sql, Type.STRING, text) for sql, text in zip(sqls, texts, strict=True)]
    return Project(rows, tuple(exprs), tuple(c.name for c in error_schema()))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _failed_rows(query: Query, mark: SetApart, relations: dict[PlanNode, None]) -> Query:
    nodes = tuple(relations)
    root = ToStream(nodes[0] if len(nodes) == 1 else UnionAll(nodes), StreamKind.ISTREAM)
    return Query(errors_name(query.name), root, query.deadline_us, query.firm, into=mark.into)
