"""Equality decides which rows are one group or one pair, never the 64-bit key alone."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from oracle.drive import judged
from seeds import seeds

from kigen.lifetimes import relation_to_stream
from kigen.lifetimes.blocks import Ints
from kigen.lifetimes.joins import join, pairing, sliced_join
from kigen.lifetimes.keys import groups as grouping
from kigen.lifetimes.keys import row_keys
from kigen.lifetimes.keys.groups import Groups
from kigen.lifetimes.keys.key_table import KeyTable
from kigen.lifetimes.keys.row_keys import null_key
from kigen.plan.types import Column, Type

_real = row_keys.row_keys


def coarse(columns: pa.RecordBatch, rows: int, chosen: Sequence[int], secret: int = 0) -> Ints:
    """Makes keys that many rows share, where keys are hashes at all."""
    found = _real(columns, rows, chosen, secret)
    whole = len(chosen) == 1 and (
        pa.types.is_integer(columns.column(chosen[0]).type) or pa.types.is_timestamp(columns.column(chosen[0]).type)
    )
    return found if whole or not chosen else found & 1


@pytest.mark.parametrize("seed", seeds(20, 40, first=9_000))
def test_keys_that_many_rows_share_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (join, grouping, pairing, sliced_join, relation_to_stream):
        monkeypatch.setattr(module, "row_keys", coarse)
    assert judged(seed) == ""


def assigned(groups: Groups, *columns: pa.Array) -> list[int]:
    batch = pa.RecordBatch.from_arrays(list(columns), names=[f"c{i}" for i in range(len(columns))])
    slots: list[int] = groups.assign(batch, batch.num_rows).tolist()
    return slots


@pytest.mark.parametrize("secret", [0, 12345])
def test_null_is_its_own(secret: int) -> None:
    groups = Groups((Column("k", Type.BIGINT),), secret)
    values = [null_key(secret), None, 7, 2177342782468422677, None, null_key(secret)]
    first = assigned(groups, pa.array(values, pa.int64()))
    assert len(set(first)) == 4
    assert first[0] == first[5]
    assert first[1] == first[4]
    other = Groups((Column("k", Type.BIGINT),), secret + 1)
    other.load(groups.state())
    assert assigned(other, pa.array(values, pa.int64())) == first


def test_two_columns_that_were_one_group() -> None:
    groups = Groups((Column("a", Type.BIGINT), Column("b", Type.BIGINT)))
    found = assigned(groups, pa.array([1, 3] * 100), pa.array([2, -2539529385689456101] * 100))
    assert len(set(found)) == 2


def test_rows_of_one_key_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "row_keys", lambda columns, rows, chosen, secret=0: np.zeros(rows, dtype=np.int64))
    schema = (Column("a", Type.STRING), Column("b", Type.DOUBLE))
    groups = Groups(schema)
    texts, numbers = ["x", None, "x", "y", "x", None], [1.0, 2.0, math.nan, None, math.nan, 2.0]
    found = assigned(groups, pa.array(texts), pa.array(numbers, pa.float64()))
    assert found[2] == found[4]
    assert found[1] == found[5]
    assert len(set(found)) == 4
    again = Groups(schema)
    again.load(groups.state())
    assert assigned(again, pa.array(texts), pa.array(numbers, pa.float64())) == found
    groups.release(np.array(sorted(set(found))))
    assert len(groups) == 0
    assert len(set(assigned(groups, pa.array(texts), pa.array(numbers, pa.float64())))) == 4


def test_times_beyond_what_python_has() -> None:
    far = pa.array([2**62, -(2**62), 0, 2**62], pa.int64()).view(pa.timestamp("us"))
    groups = Groups((Column("t", Type.TIMESTAMP), Column("k", Type.BIGINT)))
    found = assigned(groups, far, pa.array([1, 1, 1, 1]))
    assert found[0] == found[3]
    assert len(set(found)) == 3


def test_crafted_keys_do_not_crowd() -> None:
    """The 8,000 keys all fall into one cell of a table whose layout is known. The test counts the cells visited, not
    the time."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    crafted = np.array([(i * inverse) & ((1 << 64) - 1) for i in range(8_000)], dtype=np.uint64).view(np.int64)
    plain, secret = KeyTable(), KeyTable(0x1234567890ABCDEF)
    visits = []
    for slots in (plain, secret):
        count = 0
        visit = slots._visit

        def counted(position: Ints, wanted: Ints, offer: Ints, visit=visit) -> object:  # type: ignore[no-untyped-def]
            nonlocal count
            count += len(position)
            return visit(position, wanted, offer)

        slots._visit = counted  # type: ignore[method-assign, assignment]
        began = time.perf_counter()
        slots.assign(crafted)
        visits.append((count, time.perf_counter() - began))
    assert visits[0][0] > 50 * len(crafted)  # the attack works on a table without a secret
    assert visits[1][0] < 5 * len(crafted)
