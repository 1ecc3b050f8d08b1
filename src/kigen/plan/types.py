"""Defines the five types of CQL and the Arrow type of each.

Every column of every block has exactly one of these Arrow types; a TIMESTAMP is UTC microseconds without a zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import pyarrow as pa


class Type(Enum):
    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"

    @property
    def arrow(self) -> pa.DataType:
        return _ARROW[self]

    @property
    def duckdb(self) -> str:
        return "VARCHAR" if self is Type.STRING else self.value

    def __str__(self) -> str:
        return self.value


_ARROW: dict[Type, pa.DataType] = {
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.timestamp("us"),
}


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
