"""Renders a table as JSON objects, one per row, column by column: the messages of Kafka, MQTT, HTTP and jsonl files.

An object of a line has the query's columns, then `_from` and `_to`, or `_at`. An object of a change begins with `_op`
and `_at`. An upsert has the columns alone. BIGINT is a number. DECIMAL, NaN and infinities are text. Times are text in
ISO-8601 UTC with six decimals, BLOBs in base64, LISTs are arrays and STRUCTs objects. NULL is null. Names that repeat
are numbered (x, x_1), since keys of an object must differ. Cost: linear in bytes; only texts with quotes, backslashes
or control characters are rendered one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.encoding import times_of
from kigen.connectors.value_texts import double_texts, offsets_of, plain_texts, time_texts
from kigen.plan.types import Schema

_ROWS = 1 << 16  # per batch: temporary arrays stay in the cache
_BYTES = 1 << 27  # per batch: its objects must fit into one Arrow string column (2 GB)
_ESCAPED = np.zeros(256, bool)
_ESCAPED[[*range(0x20), ord('"'), ord("\\"), 0x7F]] = True


class JsonMessages:
    """Renders the rows of one query. `bare`: the columns alone, without times, as an upsert has them."""

    def __init__(self, schema: Schema, is_stream: bool, changes: bool = False, bare: bool = False) -> None:
        own = [(name, f"c{i}") for i, name in enumerate(_distinct([column.name for column in schema]))]
        times = [(name, name) for name in (() if bare else times_of(is_stream, changes))]
        self._fields = [*times, *own] if changes else [*own, *times]

    def texts(self, table: pa.Table) -> Iterator[pa.StringArray]:
        """Yields the objects of the rows, in order, in pieces."""
        rows = _ROWS if table.nbytes <= _BYTES else max(1, min(_ROWS, _BYTES * table.num_rows // table.nbytes))
        for batch in table.to_batches(max_chunksize=rows):
            if batch.num_rows:
                yield self._objects(batch)

    def _objects(self, batch: pa.RecordBatch) -> pa.StringArray:
        parts: list[pa.Array | str] = []
        before = "{"
        for name, column in self._fields:
            parts += [f"{before}{json.dumps(name, ensure_ascii=False)}:", value_texts(batch.column(column), column)]
            before = ","
        end = "}" if self._fields else "{}"
        return pc.binary_join_element_wise(*parts, pa.array([end] * batch.num_rows), "")


def message_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Returns the text of each row's key: the value itself if the key is one column, else a JSON array."""
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    if len(arrays) == 1:
        one = arrays[0]
        return one if pa.types.is_string(one.type) else pc.utf8_trim(value_texts(one), characters='"')
    parts: list[pa.Array | str] = ["["]
    for place, column in enumerate(arrays):
        parts += [*([","] if place else []), value_texts(column)]
    return pc.binary_join_element_wise(*parts, pa.array(["]"] * len(arrays[0])), "")


def value_texts(column: pa.Array, name: str = "") -> pa.Array:
    """Returns the JSON text of each value. `_at`, `_from` and `_to` are microseconds, and become times."""
    if name in ("_at", "_from", "_to"):
        column = column.cast(pa.int64()).cast(pa.timestamp("us"))
    kind = column.type
    if pa.types.is_string(kind):
        text = _strings(column)
    elif pa.types.is_timestamp(kind):
        text = _quoted(time_texts(column))
    elif pa.types.is_floating(kind):
        text = _doubles(column)
    elif pa.types.is_list(kind):
        text = _lists(column)
    elif pa.types.is_struct(kind):
        text = _structs(column)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        text = column.cast(pa.string())
    else:
        text = _quoted(plain_texts(column))
    return text.fill_null("null") if text.null_count else text


def _lists(column: pa.ListArray) -> pa.Array:
    entries = value_texts(column.flatten())
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    inside = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), entries), ",")
    return _where_valid(column, pc.binary_join_element_wise("[", inside, "]", ""))


def _structs(column: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | str] = []
    for place, field in enumerate(column.type):
        head = f"{',' if place else '{'}{json.dumps(field.name, ensure_ascii=False)}:"
        parts += [head, value_texts(column.field(place))]
    return _where_valid(column, pc.binary_join_element_wise(*parts, "}", ""))


def _where_valid(column: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', text, '"', "")


def _strings(column: pa.StringArray) -> pa.Array:
    """Quotes texts. Most columns hold nothing that needs an escape, so bytes are looked at first."""
    offsets = offsets_of(column)
    data = column.buffers()[2]
    odd = np.zeros(len(column), bool)
    if data is not None and len(column):
        found = np.flatnonzero(_ESCAPED[np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]])
        odd[np.searchsorted(offsets, found + offsets[0], side="right") - 1] = True
    quoted = _quoted(column)
    if not odd.any():
        return quoted
    mask = pc.and_(pa.array(odd), column.is_valid())
    escaped = [json.dumps(text, ensure_ascii=False) for text in column.filter(mask).to_pylist()]
    return pc.replace_with_mask(quoted, mask, pa.array(escaped, pa.string()))


def _doubles(column: pa.DoubleArray) -> pa.Array:
    text = double_texts(column)
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    odd = ~np.isfinite(values)
    if not odd.any():
        return text
    words = ['"NaN"' if v != v else '"Infinity"' if v > 0 else '"-Infinity"' for v in values[odd].tolist()]
    return pc.replace_with_mask(text, pa.array(odd), pa.array(words, pa.string()))


def _distinct(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        new, count = name, 0
        while new in found:
            count += 1
            new = f"{name}_{count}"
        found.append(new)
    return found
