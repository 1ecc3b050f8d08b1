"""Binds the body of a query or subquery: a SELECT, or a set operation over two of them.

Invariant: both inputs of a set operation have equal column types. Different numbers become the type in which DuckDB
compares them, a DATE beside a TIMESTAMP becomes a TIMESTAMP.
"""

from __future__ import annotations

from sqlglot import exp

from kigen.language.errors import CqlError, CqlErrors
from kigen.plan.binder.catalog import AlreadyReported, Catalog
from kigen.plan.binder.clauses import refuse_clauses
from kigen.plan.binder.expressions.binding import place_of
from kigen.plan.binder.expressions.duckdb_types import common_type
from kigen.plan.binder.order import first_rows
from kigen.plan.binder.scope import Relation
from kigen.plan.binder.selects import SelectBinder
from kigen.plan.binder.subqueries.with_clause import with_tables
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Distinct, Except, Expr, Intersect, PlanNode, Project, UnionAll
from kigen.plan.types import Type

_NUMBERS = (Type.BIGINT, Type.DOUBLE)


def bind_body(catalog: Catalog, node: exp.Expr) -> Relation:
    return first_rows(catalog, node, _body(catalog, node))


def _body(catalog: Catalog, node: exp.Expr) -> Relation:
    """Binds a query without its ORDER BY and LIMIT."""
    if isinstance(node, exp.Subquery):
        refuse_clauses(catalog, node)
        return bind_body(with_tables(catalog, node, bind_body), node.this)
    catalog = with_tables(catalog, node, bind_body)
    if isinstance(node, exp.Select):
        return SelectBinder(catalog, bind_body, node).bind()
    if isinstance(node, exp.SetOperation):
        return _set_operation(catalog, node)
    raise catalog.source.error(
        place_of(catalog.source, node), "expected a query", "write SELECT ... FROM stream [window]"
    )


def _set_operation(catalog: Catalog, node: exp.SetOperation) -> Relation:
    refuse_clauses(catalog, node)
    if node.args.get("by_name") or node.args.get("side") or node.args.get("kind") or node.args.get("on"):
        raise catalog.source.error(
            place_of(catalog.source, node),
            f"{node.key.upper()} BY NAME is not part of CQL",
            "list the columns in the same order",
        )
    left, right = _both(catalog, node)
    left, right = _unified(catalog, node, left, right)
    everything = not node.args.get("distinct")
    if isinstance(node, exp.Union):
        union = UnionAll((*_flat(left.node), *_flat(right.node)))
        return Relation(union if everything else Distinct(union), left.names)
    kind = Except if isinstance(node, exp.Except) else Intersect
    return Relation(kind(left.node, right.node, everything), left.names)


def _both(catalog: Catalog, node: exp.SetOperation) -> tuple[Relation, Relation]:
    """Binds both sides, so that the errors of both are reported."""
    sides: list[Relation] = []
    errors: list[CqlError] = []
    reported = False
    for side in (node.this, node.expression):
        try:
            sides.append(bind_body(catalog, side))
        except AlreadyReported:
            reported = True
        except CqlErrors as found:
            errors += found.errors
        except CqlError as error:
            errors.append(error)
    if errors:
        raise CqlErrors(errors)
    if reported:
        raise AlreadyReported
    return sides[0], sides[1]


def _flat(node: PlanNode) -> tuple[PlanNode, ...]:
    return node.inputs if type(node) is UnionAll else (node,)


def _unified(catalog: Catalog, node: exp.SetOperation, left: Relation, right: Relation) -> tuple[Relation, Relation]:
    name, source = node.key.upper(), catalog.source
    if len(left.names) != len(right.names):
        span = place_of(source, node.expression)
        raise source.error(
            span,
            f"{name} of queries with {len(left.names)} and {len(right.names)} columns",
            "give both queries the same number of columns",
        )
    types: list[Type] = []
    for i, (a, b) in enumerate(zip(left.types, right.types, strict=True)):
        kind = a if a is b else _common(left.node, i, a, right.node, b)
        if kind is None:
            span = place_of(source, node.expression)
            message = f"{name}: column {i + 1} ({left.names[i]}) is {a} on one side and {b} on the other"
            raise source.error(span, message, f"write CAST(... AS {a}) in the second query")
        types.append(kind)
    return _cast(left, types), _cast(right, types)


def _common(left_node: PlanNode, i: int, left: Type, right_node: PlanNode, right: Type) -> Type | None:
    if _is_null(left_node, i):
        return right
    if _is_null(right_node, i):
        return left
    for one, other in ((left, right), (right, left)):
        if one is Type.BOOLEAN and other in _NUMBERS:
            return other
    return common_type(left, right)


def _is_null(node: PlanNode, i: int) -> bool:
    return isinstance(node, Project) and node.exprs[i].sql == "CAST(null AS BIGINT)"


def _cast(relation: Relation, types: list[Type]) -> Relation:
    if list(relation.types) == types:
        return relation
    exprs = [bare(relation.node.schema, i) for i in range(len(types))]
    cast = [
        e if e.type is t else Expr(f"CAST({e.sql} AS {t.duckdb})", t, e.text) for e, t in zip(exprs, types, strict=True)
    ]
    return Relation(Project(relation.node, tuple(cast), relation.names), relation.names)
