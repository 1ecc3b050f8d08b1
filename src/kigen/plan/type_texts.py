"""Reads the text of a type: as users declare it, and as DuckDB names the type of an expression.

Names may be synonyms (INT, VARCHAR, NUMERIC). DuckDB's narrower and wider types become the type of CQL that holds their
values: INTEGER becomes BIGINT, FLOAT and HUGEINT become DOUBLE, times with a zone become UTC.
"""

from __future__ import annotations

import re
from functools import lru_cache

from kigen.plan.types import LARGEST_PRECISION, PLAIN_TYPES, Type

_DECLARED = {t.value: t for t in PLAIN_TYPES} | {
    "INT": Type.BIGINT,
    "INTEGER": Type.BIGINT,
    "BOOL": Type.BOOLEAN,
    "VARCHAR": Type.STRING,
    "TEXT": Type.STRING,
    "BYTEA": Type.BLOB,
}
_DUCKDB = _DECLARED | {
    **dict.fromkeys(("TINYINT", "SMALLINT", "UTINYINT", "USMALLINT", "UINTEGER", '"NULL"'), Type.BIGINT),
    **dict.fromkeys(("HUGEINT", "UHUGEINT", "UBIGINT", "FLOAT"), Type.DOUBLE),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"), Type.TIMESTAMP),
    "JSON": Type.STRING,
}
_SAME = {t.duckdb: t for t in PLAIN_TYPES}
_TOKEN = re.compile(r"""\s*("(?:[^"]|"")*"|\w+|[(),\[\]])""")


class _Unknown(Exception):
    """The text names no type."""


@lru_cache(maxsize=1024)
def declared_type(text: str) -> Type | None:
    """Returns the type that a declaration names; None if there is none."""
    return _read(text, _DECLARED, exact=True)


@lru_cache(maxsize=4096)
def duckdb_type(text: str, exact: bool) -> Type | None:
    """Returns the type of CQL for DuckDB's name of a type; None if there is none. Unless `exact`, a DECIMAL becomes a
    DOUBLE."""
    return _read(text, _DUCKDB, exact)


@lru_cache(maxsize=4096)
def is_type(text: str, kind: Type) -> bool:
    """Returns whether DuckDB's name of a type names this type itself."""
    return _read(text, _SAME, exact=True) is kind


def _read(text: str, names: dict[str, Type], exact: bool) -> Type | None:
    words: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        words.append(found[1])
        at = found.end()
    reader = _Reader(words, names, exact)
    try:
        kind = reader.type()
    except _Unknown:
        return None
    return kind if not reader.words else None


class _Reader:
    def __init__(self, words: list[str], names: dict[str, Type], exact: bool) -> None:
        self.words, self.names, self.exact = words, names, exact

    def type(self) -> Type:
        name = self._next().upper()
        while self.words and self.words[0].upper() in ("WITH", "TIME", "ZONE"):
            name += f" {self._next().upper()}"
        if name in ("DECIMAL", "NUMERIC"):
            kind = self._decimal()
        elif name == "STRUCT":
            kind = self._struct()
        elif name in self.names:
            kind = self.names[name]
        else:
            raise _Unknown
        while self.words and self.words[0] == "[":
            self._expect("[")
            self._expect("]")
            kind = Type.list_of(kind)
        return kind

    def _decimal(self) -> Type:
        precision, scale = 18, 3
        if self.words and self.words[0] == "(":
            self._expect("(")
            precision, scale = self._number(), 0
            if self.words and self.words[0] == ",":
                self._expect(",")
                scale = self._number()
            self._expect(")")
        if not 1 <= precision <= LARGEST_PRECISION or scale > precision:
            raise _Unknown
        return Type.decimal(precision, scale) if self.exact else Type.DOUBLE

    def _struct(self) -> Type:
        self._expect("(")
        fields: list[tuple[str, Type]] = []
        while True:
            word = self._next()
            name = word[1:-1].replace('""', '"') if word.startswith('"') else word
            if not name or not (word.startswith('"') or name.isidentifier()):
                raise _Unknown
            fields.append((name, self.type()))
            if self._next_is(")"):
                break
        if len({name.lower() for name, _ in fields}) < len(fields):
            raise _Unknown
        return Type.struct_of(tuple(fields))

    def _next_is(self, end: str) -> bool:
        word = self._next()
        if word not in (end, ","):
            raise _Unknown
        return word == end

    def _number(self) -> int:
        word = self._next()
        if not word.isdigit():
            raise _Unknown
        return int(word)

    def _expect(self, wanted: str) -> None:
        if self._next() != wanted:
            raise _Unknown

    def _next(self) -> str:
        if not self.words:
            raise _Unknown
        return self.words.pop(0)
