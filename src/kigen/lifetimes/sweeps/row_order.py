"""Orders rows by columns as ORDER BY does: NULLs where the key says, NaN as the greatest number, text as UTF-8 bytes.

Cost: one sort over as many integer keys as there are columns; text columns are encoded first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.aggregates.decimals import words_of
from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.expressions.evaluation import run
from kigen.plan.logical import BIRTH, SortKey

_LONGEST_WORD = 18  # digits of a decimal that fit into 64 bits


def row_ranks(columns: Sequence[pa.Array], keys: Sequence[SortKey], birth: Ints) -> Ints:
    """Returns the place of each row in the order of the keys, from 0. `columns` are by number; a key of BIRTH stands
    for the rows' births. Rows that are equal in all keys keep their order."""
    parts: list[Ints] = []
    for key in keys:
        if key.column == BIRTH:
            parts.append(~birth if key.descending else birth)
            continue
        column = columns[key.column]
        values = ordered_integers(column)
        if column.null_count:
            null = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.int64)
            parts.append(-null if key.nulls_first else null)
            values = np.where(null, 0, values)
        parts.append(~values if key.descending else values)
    order = np.lexsort(parts[::-1]) if parts else np.arange(len(birth))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def key_changes(columns: Sequence[pa.Array], keys: Sequence[SortKey], rows: int) -> Mask:
    """Returns which rows differ from the row before in a key; NULL equals NULL."""
    out = np.zeros(rows, dtype=np.bool_)
    for key in keys:
        column = columns[key.column]
        values = ordered_integers(column)
        apart = values[1:] != values[:-1]
        if column.null_count:
            null = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
            apart = np.where(null[1:] | null[:-1], null[1:] != null[:-1], apart)
        out[1:] |= apart
    return out


def column_order(times: Sequence[Ints], columns: Sequence[pa.Array]) -> Ints:
    """Returns the rows ordered by the numbers of `times`, and then by all columns, ascending, NULLs first."""
    nested = (pa.types.is_nested(column.type) for column in columns)
    sortable = [pa.array(ranked(c)[0]) if deep else c for c, deep in zip(columns, nested, strict=True)]
    keys = [*(pa.array(time) for time in times), *sortable]
    batch = pa.RecordBatch.from_arrays(keys, names=[f"k{i}" for i in range(len(keys))])
    order = pc.sort_indices(batch, sort_keys=[(name, "ascending", "at_start") for name in batch.schema.names])
    return np.asarray(order.to_numpy(zero_copy_only=False), dtype=np.int64)


def ordered_integers(column: pa.Array) -> Ints:
    """Returns integers in the order of the values; NULL has any. Those of text only compare within this column."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        column = column.view(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_decimal(kind) and kind.precision <= _LONGEST_WORD:
        return words_of(column)[0].view(np.int64)
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        return ranked(column)[0]
    filled = pc.fill_null(column, 0) if column.null_count else column
    values = np.asarray(filled.to_numpy(zero_copy_only=False))
    if not pa.types.is_floating(kind):
        return values
    values = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and no -0.0
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def ranked(column: pa.Array) -> tuple[Ints, pa.Array]:
    """Returns ranks (0 is the least, -1 stands for NULL) and the distinct values by rank. NaN is the greatest; strings
    compare as UTF-8 bytes."""
    if pa.types.is_nested(column.type):
        return _ranked_by_duckdb(column)
    if pa.types.is_boolean(column.type):
        ranks, values = ranked(column.cast(pa.int8()))
        return ranks, values.cast(pa.bool_())
    encoded = column.dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    values = encoded.dictionary
    if pa.types.is_floating(values.type):
        order = np.argsort(values.to_numpy(zero_copy_only=False), kind="stable")
    else:
        order = np.asarray(pc.sort_indices(values).to_numpy(zero_copy_only=False), dtype=np.int64)
    rank_of = np.empty(len(order) + 1, dtype=np.int64)
    rank_of[order] = np.arange(len(order))
    rank_of[-1] = -1  # code -1: NULL
    return rank_of[codes], values.take(pa.array(order))


def _ranked_by_duckdb(column: pa.Array) -> tuple[Ints, pa.Array]:
    """Ranks lists and structs, whose order only DuckDB knows."""
    rows = pa.RecordBatch.from_arrays([column], names=["c0"])
    if not len(column):
        return np.empty(0, dtype=np.int64), column
    found = run(rows, ["dense_rank() OVER (ORDER BY c0 NULLS LAST) - 1", "row_number() OVER ()"])
    order = np.asarray(found.column(1).to_numpy(zero_copy_only=False), dtype=np.int64) - 1
    ranks = np.empty(len(column), dtype=np.int64)
    ranks[order] = np.asarray(found.column(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    ranks[np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)] = -1
    row_of = np.zeros(int(ranks.max()) + 1, dtype=np.int64)
    row_of[ranks[ranks >= 0]] = np.flatnonzero(ranks >= 0)
    return ranks, column.take(pa.array(row_of))


def is_exact(kind: pa.DataType) -> bool:
    """Whether different values of a type, NULL apart, have different numbers in `coarse_key`."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _LONGEST_WORD)
    plain = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp)
    return any(is_kind(kind) for is_kind in (*plain, pa.types.is_time64, pa.types.is_date32))


def coarse_key(column: pa.Array, key: SortKey) -> Ints:
    """Returns numbers that never contradict the order of a key, and that compare with those of other columns of its
    type. Different values may have one number: texts have that of their first eight bytes, lists and structs have 0."""
    kind = column.type
    if pa.types.is_nested(kind):
        values = np.zeros(len(column), dtype=np.int64)
    elif pa.types.is_decimal(kind) and kind.precision > _LONGEST_WORD:
        values = words_of(column)[1]
    else:
        texts = pa.types.is_string(kind) or pa.types.is_binary(kind)
        values = _first_bytes(column) if texts else ordered_integers(column)
    if key.descending:
        values = ~values
    if column.null_count:
        null = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        bounds = np.iinfo(np.int64)
        values = np.where(null, bounds.min if key.nulls_first else bounds.max, values)
    return values


def _first_bytes(column: pa.Array) -> Ints:
    """Returns the first eight bytes of texts as a number, in the order of unsigned numbers."""
    _, offsets_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.zeros(1, dtype=np.uint8)
    begin, length = offsets[:-1].astype(np.int64), np.diff(offsets)
    out = np.zeros(len(column), dtype=np.uint64)
    for place in range(8):
        there = length > place
        byte = np.zeros(len(column), dtype=np.uint64)
        byte[there] = data[begin[there] + place]
        out = (out << np.uint64(8)) | byte
    return (out ^ np.uint64(1 << 63)).view(np.int64)
