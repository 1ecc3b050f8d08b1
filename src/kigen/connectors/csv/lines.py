"""Renders a table as lines of CSV (RFC 4180), column by column, without a Python loop over rows.

Invariant: NULL is an empty field without quotes, and the empty string is `""`. A double is the shortest text that reads
back to the same bits; it always has a point, an exponent, or is `NaN`, `inf` or `-inf`. A timestamp is ISO-8601 in UTC
with six decimals, a LIST or STRUCT is JSON, a BLOB is base64. Cost: linear in bytes; the lines of a batch are one Arrow
buffer, which is written without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.csv.few_lines import MOST_ROWS, few_lines
from kigen.connectors.json_messages import value_texts
from kigen.connectors.value_texts import double_texts, offsets_of, plain_texts, time_texts

_ROWS = 1 << 16  # per batch: temporary arrays stay in the cache
_BYTES = 1 << 28  # per batch: its lines must fit into one Arrow string column (2 GB)
_SPECIAL = np.zeros(256, bool)
_SPECIAL[[ord(c) for c in ',"\r\n']] = True


def csv_lines(columns: list[pa.ChunkedArray]) -> Iterator[memoryview]:
    """Yields the lines of the columns, without a header. The last column must be a timestamp."""
    if 0 < len(columns[0]) <= MOST_ROWS:
        few = few_lines([pa.concat_arrays(c.chunks) if c.num_chunks != 1 else c.chunk(0) for c in columns])
        if few is not None:
            yield memoryview(few)
            return
    table = pa.table(columns, names=[f"x{i}" for i in range(len(columns))])
    rows = _ROWS if table.nbytes <= _BYTES else max(1, min(_ROWS, _BYTES * table.num_rows // table.nbytes))
    for batch in table.to_batches(max_chunksize=rows):
        if batch.num_rows:
            *fields, last = batch.columns
            texts = [*(_TEXT.get(field.type, _other)(field) for field in fields), time_texts(last, "Z\n", null="\n")]
            line = pc.binary_join_element_wise(*texts, ",", null_handling="replace", null_replacement="")
            yield memoryview(line.buffers()[2])[: offsets_of(line)[-1]]


def _strings(column: pa.StringArray) -> pa.Array:
    """Quotes what needs quotes. Most columns hold nothing of that kind, so bytes are looked at first."""
    offsets = offsets_of(column)
    quoted = offsets[1:] == offsets[:-1]
    data = column.buffers()[2]
    if data is not None:
        found = np.flatnonzero(_SPECIAL[np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]])
        quoted[np.searchsorted(offsets, found + offsets[0], side="right") - 1] = True
    if not quoted.any():
        return column
    mask = pc.and_(pa.array(quoted), column.is_valid())
    inside = pc.replace_substring(column.filter(mask), '"', '""')
    return pc.replace_with_mask(column, mask, pc.binary_join_element_wise('"', inside, '"', ""))


def _other(column: pa.Array) -> pa.Array:
    """Writes lists and structs as JSON, the other types as plain text."""
    if not pa.types.is_nested(column.type):
        return plain_texts(column)
    texts = value_texts(column)
    return _strings(pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts)


def _as_text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


_TEXT: dict[pa.DataType, Callable[[pa.Array], pa.Array]] = {
    pa.string(): _strings,
    pa.float64(): double_texts,
    pa.timestamp("us"): time_texts,
    pa.int64(): _as_text,
    pa.bool_(): _as_text,
}
