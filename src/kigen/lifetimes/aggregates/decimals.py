"""Decimals as 128-bit integers: reads the words of a column, and makes a column of sums.

Invariant: a sum is exact, or an error if it has more than 38 digits, as DuckDB's. Cost: one pass per word.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.aggregates import exact_sums
from kigen.lifetimes.aggregates.exact_sums import Limbs, Words
from kigen.lifetimes.blocks import Ints, Mask
from kigen.lifetimes.expressions.evaluation import EvaluationError

_LARGEST = 10**38


def words_of(column: pa.Array) -> tuple[Words, Ints]:
    """Returns the lower and the upper words of decimals; those of NULLs are any."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column), dtype=np.uint64), np.zeros(len(column), dtype=np.int64)
    both = np.frombuffer(buffer, dtype=np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    return both[0::2].view(np.uint64), both[1::2]


def limbs_of(column: pa.Array) -> Limbs:
    """Cuts the decimals of a column into limbs; NULL counts as 0."""
    low, high = words_of(column)
    if column.null_count:
        valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)
        low, high = np.where(valid, low, np.uint64(0)), np.where(valid, high, 0)
    return exact_sums.limbs_of_decimals(low, high)


def sums_of(limbs: Limbs, null: Mask, kind: pa.Decimal128Type, lenient: bool) -> tuple[pa.Array, Mask]:
    """Returns the sums as decimals, and where they differ from the one before. A sum that does not fit is NULL if
    `lenient`, else it raises EvaluationError."""
    low, high, beyond = exact_sums.to_words(limbs, len(null))
    largest, smallest = divmod(_LARGEST, 1 << 64), divmod(1 - _LARGEST, 1 << 64)
    beyond |= (high > largest[0]) | ((high == largest[0]) & (low >= np.uint64(largest[1])))
    beyond |= (high < smallest[0]) | ((high == smallest[0]) & (low < np.uint64(smallest[1])))
    if lenient:
        null = null | beyond
    elif bool((beyond & ~null).any()):
        raise EvaluationError("SUM exceeds the 38 digits of a DECIMAL; sum CAST(... AS DOUBLE) instead")
    words = np.empty(2 * len(null), dtype=np.int64)
    words[0::2], words[1::2] = np.where(null, 0, low.view(np.int64)), np.where(null, 0, high)
    valid = pa.array(~null).buffers()[1]
    array = pa.Array.from_buffers(kind, len(null), [valid, pa.py_buffer(words)])
    changed = np.ones(len(null), dtype=np.bool_)
    same = (words[2::2] == words[:-2:2]) & (words[3::2] == words[1:-2:2])
    changed[1:] = (null[1:] != null[:-1]) | (~null[1:] & ~same)
    return array, changed
