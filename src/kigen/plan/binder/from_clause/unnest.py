"""Binds UNNEST(list) in FROM: a row for each element of a list of an input before it.

The rows are those of that input, once per element, so UNNEST becomes part of the leaf that it reads and not an input
that is joined. Invariant: its position in the scope is where it stands in FROM.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from kigen.language.app_text import Source, Span
from kigen.language.errors import CqlError
from kigen.plan.binder.expressions.binding import place_of, resolve, typed
from kigen.plan.binder.from_clause.conjuncts import Base, Leaf
from kigen.plan.binder.scope import Relation, Scope
from kigen.plan.expressions.columns import bare
from kigen.plan.logical import Expr, PlanNode, Project, Unnest
from kigen.plan.types import Type

_HINT = "write FROM s [window] AS a, UNNEST(a.items) AS u(item)"


def bind_unnest(scope: Scope, leaves: Sequence[Leaf], node: exp.Unnest) -> tuple[int, Leaf]:
    """Adds the elements to the scope. Returns which leaf has them, and the new leaf in its place."""
    source, place = scope.source, word_place(scope.source, node)
    alias = node.args.get("alias")
    name = alias.name if alias is not None and alias.name else "unnest"
    columns = alias.args.get("columns") or [] if alias is not None else []
    if len(node.expressions) != 1 or node.args.get("offset") or len(columns) > 1:
        raise source.error(place, "UNNEST takes one list and has one column", _HINT)
    term = resolve(scope, node.expressions[0], clause="UNNEST")
    found = [k for k, leaf in enumerate(leaves) if term.positions() & leaf.base.places.keys()]
    if not found:
        raise unread(source, node)
    if len(found) > 1:
        raise source.error(place, "UNNEST reads several inputs", _HINT)
    leaf = leaves[found[0]]
    expr = typed(term, leaf.base.types, leaf.base.place)
    if expr.type.element is None:
        raise _no_list(source, node, expr.type)
    column = columns[0].name if columns else name
    below = _widened(leaf.base.node, expr)
    listed = len(below.schema) - 1 if expr.column is None else expr.column
    made = Unnest(below, listed, column)
    element = Expr(f"CAST(NULL AS {expr.type.element.duckdb})", expr.type.element, column)
    shown = Relation(Project(leaf.base.node, (element,), (column,)), (column,))
    entry = scope.add(name if alias is not None else None, shown, None, place)
    return found[0], Leaf(Base(made, leaf.base.places | {entry.offset: len(below.schema)}), leaf.place)


def unread(source: Source, node: exp.Unnest) -> CqlError:
    """Returns the error of an UNNEST that reads no input."""
    return source.error(word_place(source, node), "UNNEST reads no input before it", _HINT)


def word_place(source: Source, node: exp.Unnest) -> Span:
    """Returns the place of the word UNNEST."""
    inner = place_of(source, node)
    words = [t for t in source.tokens_in((0, inner[0] + 1)) if t.text.upper() == "UNNEST"]
    return (words[-1].start, words[-1].end + 1) if words else inner


def _widened(node: PlanNode, expr: Expr) -> PlanNode:
    if expr.column is not None:
        return node
    own = [bare(node.schema, i) for i in range(len(node.schema))]
    return Project(node, (*own, expr), (*(c.name for c in node.schema), expr.text))


def _no_list(source: Source, node: exp.Unnest, kind: Type) -> CqlError:
    hint = "declare the column as a list, such as BIGINT[], or split a text: string_split(x, ',')"
    return source.error(place_of(source, node.expressions[0]), f"UNNEST needs a list, got {kind}", hint)
