"""Refuses clauses that SQL has, sqlglot parses and CQL lacks, each with what to write instead."""

from __future__ import annotations

from sqlglot import exp

from kigen.language.app_text import Span
from kigen.plan.binder.catalog import Catalog
from kigen.plan.binder.expressions.binding import place_of

_HINTS = {
    "windows": ("WINDOW", "use a window on the stream, as in s [ROWS n]"),
    "laterals": ("LATERAL", "join with a subquery in FROM"),
    "sample": ("SAMPLE", "leave it out"),
    "into": ("INTO inside a query", "write INTO connector (...) after the query"),
}


def refuse_clauses(catalog: Catalog, node: exp.Expr) -> None:
    """Raises for the first clause of the node that CQL lacks, such as WINDOW or SAMPLE."""
    for arg, (name, hint) in _HINTS.items():
        value = node.args.get(arg)
        if value:
            raise catalog.source.error(_clause_span(catalog, node, name, value), f"{name} is not part of CQL", hint)


def _clause_span(catalog: Catalog, node: exp.Expr, name: str, value: object) -> Span:
    source, whole = catalog.source, place_of(catalog.source, node)
    inner = place_of(source, value) if isinstance(value, exp.Expr) else (0, 1)
    end = whole[1] if inner == (0, 1) else inner[0] + 1
    before = [t for t in source.tokens_in((0, end)) if t.text.upper() == name.split(" inside")[0]]
    if before:
        return before[-1].start, before[-1].end + 1
    return inner if inner != (0, 1) else whole
