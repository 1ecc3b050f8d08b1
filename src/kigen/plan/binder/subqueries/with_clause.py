"""Binds WITH: named sub-queries that the rest of a query may read.

A table of WITH is bound once, where it stands, and may read the tables before it. Equal sub-plans are one operator, so
reading a table twice computes it once.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from kigen.language.app_text import Span, span_of
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.expressions.binding import place_of
from kigen.plan.binder.scope import Relation


def with_tables(catalog: Catalog, node: exp.Expr, bind_body: Callable[[Catalog, exp.Expr], Relation]) -> Catalog:
    """Returns the catalog with the tables of the node's WITH, or the catalog itself if there is none."""
    clause = node.args.get("with_")
    if clause is None:
        return catalog
    if clause.args.get("recursive"):
        raise catalog.source.error(
            _word(catalog, clause, "RECURSIVE"), "WITH RECURSIVE is not part of CQL", "leave RECURSIVE out"
        )
    names: set[str] = set()
    for table in clause.expressions:
        alias = table.args["alias"]
        key = alias.name.lower()
        if key in names:
            raise catalog.source.error(
                span_of(alias.this) or (0, 1), f"{alias.name} appears twice in WITH", "give one of them another name"
            )
        names.add(key)
        relation = bind_body(catalog, table.this)
        catalog = catalog.within({key: _renamed(catalog, relation, alias)})
    return catalog


def _renamed(catalog: Catalog, relation: Relation, alias: exp.Expr) -> Relation:
    columns = alias.args.get("columns") or []
    if len(columns) > len(relation.names):
        message = f"{len(columns)} column names for {len(relation.names)} columns"
        raise catalog.source.error(place_of(catalog.source, columns[-1]), message, "remove the extra names")
    return Relation(relation.node, tuple(c.name for c in columns) + relation.names[len(columns) :])


def _word(catalog: Catalog, node: exp.Expr, word: str) -> Span:
    place = place_of(catalog.source, node)
    words = [t for t in catalog.source.tokens_in((0, place[1])) if t.text.upper() == word]
    return (words[-1].start, words[-1].end + 1) if words else place
