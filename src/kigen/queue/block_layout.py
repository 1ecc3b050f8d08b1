"""Checks the layout of a block before Arrow reads it. The bytes came over a link or from a disk and are not trusted.

Arrow trusts much of what a message says. It allocates a compressed buffer as large as the message claims, takes the
claimed number of rows, and follows the offsets inside a text column wherever they lead. Therefore the few numbers of a
message (a flatbuffer) are read here first. Invariant: a block that passes holds exactly the rows and buffers that its
columns need, all of them inside the block, and none compressed by Arrow itself; reading it allocates nothing. Arrow's
own full validation checks the content of the buffers afterwards. Cost: about 20 us per block, independent of its size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from kigen.queue.errors import BadRequest

_PREFIX = struct.Struct("<Ii")  # continuation marker, bytes of metadata
_MARKER = 0xFFFFFFFF
_U16, _U32, _I32, _I64, _PAIR = (struct.Struct(code) for code in ("<H", "<I", "<i", "<q", "<qq"))
_RECORD_BATCH = 3  # number of this kind of message
_LONGEST_METADATA = 1 << 20
MOST_COLUMNS = 10_000


@dataclass(frozen=True)
class Layout:
    """Numbers that a message states about itself."""

    rows: int
    nodes: tuple[tuple[int, int], ...]  # rows and NULLs of each column, nested columns included
    buffers: tuple[tuple[int, int], ...]  # first byte within the body and number of bytes, per buffer
    compressed: bool
    body: int  # bytes


class _Metadata:
    """Reads tables of a flatbuffer. Every access is inside the bytes, or raises struct.error."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def root(self) -> int:
        return self.u32(0)

    def u32(self, at: int) -> int:
        return int(self._get(_U32, at)[0])

    def _get(self, kind: struct.Struct, at: int) -> tuple[Any, ...]:
        if at < 0:
            raise struct.error("an address before the first byte")
        return kind.unpack_from(self._data, at)

    def field(self, table: int, number: int) -> int | None:
        """Returns the address of a field of a table, or None if the field has its default value."""
        names = table - int(self._get(_I32, table)[0])
        size = int(self._get(_U16, names)[0])
        place = 4 + 2 * number
        offset = int(self._get(_U16, names + place)[0]) if place + 2 <= size else 0
        return table + offset if offset else None

    def number(self, table: int, number: int, kind: struct.Struct) -> int:
        at = self.field(table, number)
        return 0 if at is None else int(self._get(kind, at)[0])

    def table(self, table: int, number: int) -> int | None:
        at = self.field(table, number)
        return None if at is None else at + self.u32(at)

    def pairs(self, table: int, number: int) -> tuple[tuple[int, int], ...]:
        start = self.table(table, number)
        if start is None:
            return ()
        count = self.u32(start)
        end = start + 4 + count * _PAIR.size
        if end > len(self._data):
            raise struct.error("a list that ends after the last byte")
        return tuple(_PAIR.iter_unpack(self._data[start + 4 : end]))


def layout_of(message: Any) -> Layout:
    """Returns the layout that a message states. Raises BadRequest if it is not a record batch of Arrow."""
    try:
        marker, length = _PREFIX.unpack_from(message, 0)
        if marker != _MARKER or not 0 < length <= _LONGEST_METADATA or _PREFIX.size + length > len(message):
            raise BadRequest("the block does not begin as an Arrow message")
        read = _Metadata(bytes(memoryview(message)[_PREFIX.size : _PREFIX.size + length]))
        root = read.root()
        kind, header = read.number(root, 1, struct.Struct("<B")), read.table(root, 2)
        if kind != _RECORD_BATCH or header is None:
            raise BadRequest("the block is not an Arrow record batch")
        compressed = read.field(header, 3) is not None
        body = len(message) - _PREFIX.size - length
        if not 0 <= read.number(root, 3, _I64) <= body:
            raise BadRequest("the body of the block is longer than the block")
        return Layout(read.number(header, 0, _I64), read.pairs(header, 1), read.pairs(header, 2), compressed, body)
    except struct.error as error:
        raise BadRequest(f"the metadata of the block is damaged: {error}") from error


@lru_cache(maxsize=256)
def _needed(schema: pa.Schema) -> tuple[int, int]:
    """Returns how many columns (nested ones included) and buffers a block of this schema has."""
    empty = pa.RecordBatch.from_arrays([pa.array([], type=f.type) for f in schema], schema=schema)
    found = layout_of(empty.serialize())
    return len(found.nodes), len(found.buffers)


def check_layout(message: Any, count: int, schema: pa.Schema) -> None:
    """Raises BadRequest unless the message holds `count` rows of these columns, all inside the message."""
    found, (nodes, buffers) = layout_of(message), _needed(schema)
    if found.rows != count:
        raise BadRequest(
            f"the record says that the block holds {count:,} rows, and the Arrow message says {found.rows:,}"
        )
    if len(found.nodes) != nodes or len(found.buffers) != buffers:
        raise BadRequest(
            f"the block has {len(found.nodes)} columns and {len(found.buffers)} buffers: the stream's columns need "
            f"{nodes} and {buffers}"
        )
    if found.compressed:
        raise BadRequest("Arrow compressed the buffers of the block: Kigen compresses blocks as a whole")
    if any(not 0 <= nulls <= rows <= max(count, 8 * found.body) for rows, nulls in found.nodes):
        raise BadRequest("a column of the block has more rows than fit into the block")
    if any(at < 0 or size < 0 or at % 8 or at + size > found.body for at, size in found.buffers):
        raise BadRequest("a buffer of the block lies outside the block")
