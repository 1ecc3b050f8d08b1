"""Hashes the values of columns, each column by itself, as DuckDB's `hash` does.

The hashes are part of saved states, so all ways to compute them give the same numbers. A call of DuckDB costs more than
all the rest of a step over few rows. So numbers are hashed here, and few texts are looked up among those that were
hashed before. DuckDB hashes everything else. Equal values of a type have equal hashes: 0.0 and -0.0, all kinds of NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kigen.lifetimes.blocks import Ints
from kigen.lifetimes.expressions.evaluation import run

_NULL = 0xBF58476D1CE4E5B9
_FACTOR, _HALF = np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
_FEW = 64  # rows: more texts than that are hashed by DuckDB
_LONGEST, _MOST = 256, 65_536  # bytes of a text that is kept, and texts that are kept
_TEXTS: dict[str, int] = {}


def column_hashes(columns: pa.RecordBatch, keys: Sequence[int]) -> dict[int, Ints]:
    """Returns the hashes of these columns."""
    found = {k: _quick(columns.column(k)) for k in keys}
    left = [k for k in keys if found[k] is None]
    if left:
        table = run(columns, [f"hash(c{k})" for k in left])
        for i, k in enumerate(left):
            found[k] = np.asarray(table.column(i).to_numpy(zero_copy_only=False)).view(np.int64)
            _remember(columns.column(k), found[k])
    return {k: hashes for k, hashes in found.items() if hashes is not None}


def _quick(column: pa.Array) -> Ints | None:
    """Returns a column's hashes if DuckDB is not needed for them."""
    if pa.types.is_float64(column.type):
        values = np.asarray(pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan
        return _with_nulls(column, _murmur(values.view(np.uint64)))
    if pa.types.is_boolean(column.type):
        flags = np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False))
        return _with_nulls(column, _murmur(flags.astype(np.uint64)))
    if pa.types.is_string(column.type) and len(column) <= _FEW:
        try:
            texts = [_NULL if text is None else _TEXTS[text] for text in column.to_pylist()]
        except KeyError:
            return None
        return np.array(texts, dtype=np.uint64).view(np.int64)
    return None


def _remember(column: pa.Array, hashes: Ints | None) -> None:
    if hashes is None or len(column) > _FEW or not pa.types.is_string(column.type):
        return
    if len(_TEXTS) > _MOST:
        _TEXTS.clear()
    for text, value in zip(column.to_pylist(), hashes.view(np.uint64).tolist(), strict=True):
        if text is not None and len(text) <= _LONGEST:
            _TEXTS[text] = value


def _with_nulls(column: pa.Array, hashes: npt.NDArray[np.uint64]) -> Ints:
    if column.null_count:
        hashes[np.asarray(column.is_null().to_numpy(zero_copy_only=False))] = _NULL
    return hashes.view(np.int64)


def _murmur(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mixes the bits of each number."""
    for _ in range(2):
        bits = (bits ^ (bits >> _HALF)) * _FACTOR
    return bits ^ (bits >> _HALF)
