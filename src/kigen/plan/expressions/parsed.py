"""Parses the text of a bound expression into sqlglot's tree, and writes such a tree as text again."""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from kigen.language.dialect import Cql


@lru_cache(maxsize=4096)
def parsed(sql: str) -> exp.Expression | None:
    """Returns None for a text that is not one expression for sqlglot. Callers must not change the tree."""
    try:
        tree = sqlglot.parse_one(sql, dialect=Cql)
    except (SqlglotError, RecursionError):
        return None
    return tree if isinstance(tree, exp.Expression) else None


def text_of(tree: exp.Expression) -> str:
    return str(tree.sql(dialect=Cql))
