"""Defines the types of CQL and the Arrow type of each.

Every column of every block has exactly one of these Arrow types. A TIMESTAMP is UTC microseconds without a zone, a UUID
is its text in lower case. Invariant: equal types are one object, in every process, so types are compared with `is`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa

LARGEST_PRECISION = 38


class Type:
    """A type. `value` is its text in CQL. `of`, `name_of` and `digits` describe lists, structs and decimals."""

    BOOLEAN: ClassVar[Type]
    BIGINT: ClassVar[Type]
    DOUBLE: ClassVar[Type]
    STRING: ClassVar[Type]
    TIMESTAMP: ClassVar[Type]
    DATE: ClassVar[Type]
    TIME: ClassVar[Type]
    UUID: ClassVar[Type]
    BLOB: ClassVar[Type]

    _known: ClassVar[dict[tuple[Any, ...], Type]] = {}

    __slots__ = ("_key", "arrow", "duckdb", "element", "fields", "kind", "precision", "scale", "value")

    kind: str  # BIGINT, ..., DECIMAL, LIST or STRUCT
    value: str
    duckdb: str  # DuckDB's name of the type
    arrow: pa.DataType
    element: Type | None  # of a LIST
    fields: tuple[tuple[str, Type], ...]  # of a STRUCT
    precision: int  # of a DECIMAL: digits in all
    scale: int  # of a DECIMAL: digits after the point

    @staticmethod
    def _made(key: tuple[Any, ...], make: Callable[[], Type]) -> Type:
        found = Type._known.get(key)
        return found if found is not None else Type._known.setdefault(key, make())

    def __init__(self, key: tuple[Any, ...], value: str, duckdb: str, arrow: pa.DataType) -> None:
        self._key, self.kind = key, key[0]
        self.value, self.duckdb, self.arrow = value, duckdb, arrow
        self.element, self.fields, self.precision, self.scale = None, (), 0, 0

    @staticmethod
    def plain(name: str, arrow: pa.DataType) -> Type:
        """Makes a type without parameters."""
        return Type._made((name,), lambda: Type((name,), name, "VARCHAR" if name == "STRING" else name, arrow))

    @staticmethod
    def decimal(precision: int, scale: int) -> Type:
        def make() -> Type:
            text = f"DECIMAL({precision},{scale})"
            made = Type(("DECIMAL", precision, scale), text, text, pa.decimal128(precision, scale))
            made.precision, made.scale = precision, scale
            return made

        return Type._made(("DECIMAL", precision, scale), make)

    @staticmethod
    def list_of(element: Type) -> Type:
        def make() -> Type:
            made = Type(("LIST", element), f"{element}[]", f"{element.duckdb}[]", pa.list_(element.arrow))
            made.element = element
            return made

        return Type._made(("LIST", element), make)

    @staticmethod
    def struct_of(fields: tuple[tuple[str, Type], ...]) -> Type:
        def make() -> Type:
            value = ", ".join(f"{_name(n)} {t}" for n, t in fields)
            duckdb = ", ".join(f"{_quoted(n)} {t.duckdb}" for n, t in fields)
            arrow = pa.struct([pa.field(n, t.arrow) for n, t in fields])
            made = Type(("STRUCT", fields), f"STRUCT({value})", f"STRUCT({duckdb})", arrow)
            made.fields = fields
            return made

        return Type._made(("STRUCT", fields), make)

    @property
    def is_nested(self) -> bool:
        return self.kind in ("LIST", "STRUCT")

    @property
    def is_decimal(self) -> bool:
        return self.kind == "DECIMAL"

    def holds(self, kind: str) -> bool:
        """Returns whether the type is of a kind, or has an element or a field of it."""
        inner = [t for _, t in self.fields] + ([] if self.element is None else [self.element])
        return self.kind == kind or any(t.holds(kind) for t in inner)

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"<Type.{self.kind}: {self.value!r}>"  # as digests of older plans have it

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_decimal:
            return Type.decimal, (self.precision, self.scale)
        if self.element is not None:
            return Type.list_of, (self.element,)
        return (Type.struct_of, (self.fields,)) if self.fields else (Type.plain, (self.value, self.arrow))

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: Any) -> Type:
        return self


def _name(name: str) -> str:
    """Returns the name of a field as users write it."""
    return name if name.isascii() and name.isidentifier() else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


Type.BOOLEAN = Type.plain("BOOLEAN", pa.bool_())
Type.BIGINT = Type.plain("BIGINT", pa.int64())
Type.DOUBLE = Type.plain("DOUBLE", pa.float64())
Type.STRING = Type.plain("STRING", pa.string())
Type.TIMESTAMP = Type.plain("TIMESTAMP", pa.timestamp("us"))
Type.DATE = Type.plain("DATE", pa.date32())
Type.TIME = Type.plain("TIME", pa.time64("us"))
Type.UUID = Type.plain("UUID", pa.string())
Type.BLOB = Type.plain("BLOB", pa.binary())

PLAIN_TYPES: tuple[Type, ...] = (
    Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP, Type.DATE, Type.TIME, Type.UUID, Type.BLOB,
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    name: str
    type: Type


Schema = tuple[Column, ...]


@lru_cache(maxsize=1024)
def arrow_schema(schema: Schema) -> pa.Schema:
    """Returns the Arrow schema of a block's columns inside the kernel. Names are positional (c0, c1, ...), because
    names may repeat in SQL."""
    return pa.schema([pa.field(f"c{i}", column.type.arrow) for i, column in enumerate(schema)])
