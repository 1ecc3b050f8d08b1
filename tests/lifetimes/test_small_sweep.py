"""Small steps of an aggregate give the same rows and the same state as the sweep over arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput
from kigen.lifetimes.aggregates import aggregate, exact_sums
from kigen.lifetimes.runtime import TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

APP = """CREATE STREAM s (k DOUBLE, t STRING, i BIGINT, d DOUBLE) FROM synthetic (rate = 1);
CREATE QUERY q AS SELECT {keys}, COUNT(*) AS n, COUNT(i) AS ni, COUNT(t) AS nt, SUM(i) AS si, AVG(i) AS ai,
  SUM(d) AS sd, AVG(d) AS ad FROM s {window} GROUP BY {keys};"""
DOUBLES = [0.0, -0.0, 0.1, -1.5, 1e300, -1e300, 5e-324, 1e-300, 3e17, math.pi]
SPECIAL = [math.nan, math.inf, -math.inf]


def rows(rng: np.random.Generator, count: int, at: int, wild: bool) -> pa.Table:
    def picked(values: list[Any], nulls: float) -> list[Any]:
        return [None if rng.random() < nulls else values[int(rng.integers(len(values)))] for _ in range(count)]

    doubles = DOUBLES + SPECIAL if wild else [*DOUBLES[:4], 3e17, math.pi]
    integers = [0, 1, -7, 2**40, -(2**50), 10**6]
    return pa.table(
        {
            "c0": pa.array(picked([0.0, -0.0, 1.0, math.nan], 0.1), pa.float64()),
            "c1": pa.array(picked(["a", "b", ""], 0.2), pa.string()),
            "c2": pa.array(picked(integers, 0.1 if wild else 0.02), pa.int64()),
            "c3": pa.array(picked(doubles, 0.1 if wild else 0.0), pa.float64()),
            "_ts": pa.array(np.sort(rng.integers(at, at + 6, count)), pa.int64()),
        }
    )


def played(seed: int, monkeypatch: pytest.MonkeyPatch, most: int) -> tuple[list[Any], TaskRuntime]:
    monkeypatch.setattr(aggregate, "MOST_EVENTS", most)
    rng = np.random.default_rng(seed)
    window = ["[RANGE 20 MICROSECONDS]", "[ROWS 7]", "[RANGE 12 MICROSECONDS SLIDE 4 MICROSECONDS]"][seed % 3]
    app = bind(APP.format(keys=["k", "t", "k, t"][seed // 3 % 3], window=window))
    task = extract_tasks(app)[0]
    runtime, out, at = TaskRuntime(task, app), [], 0
    for _ in range(40):
        at += 6
        table = rows(rng, int(rng.integers(0, 9)), at, wild=seed % 2 == 1)
        result = runtime.step({"s": StreamInput([table], at + 6)})
        lines = [table.to_pydict() for table in result.outputs.values()]
        out.append((repr(lines), result.next_event_us))
        if rng.random() < 0.1:
            saved, runtime = runtime.snapshot(), TaskRuntime(task, app)
            runtime.restore(saved)
    return out, runtime


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_sweep_over_arrays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small, one = played(seed, monkeypatch, 16)
    arrays, other = played(seed, monkeypatch, 0)
    assert small == arrays
    mine, theirs = one.operators, other.operators
    for a, b in zip(mine, theirs, strict=True):
        if isinstance(a, aggregate.AggregateOperator):
            assert a._rows.tolist() == b._rows.tolist()
            assert a._open.tolist() == b._open.tolist()
            assert a._next_id == b._next_id


def test_parts_of_one_number_are_those_of_an_array() -> None:
    rng = np.random.default_rng(3)
    doubles = [*DOUBLES, *(float(v) for v in rng.normal(0, 1e9, 200)), *(10.0 ** rng.uniform(-300, 300, 200)).tolist()]
    for value in doubles:
        limbs = exact_sums.limbs_of_doubles(np.array([value]))
        expected = {b: int(limb[0]) for b, limb in limbs.items() if limb[0]}
        assert {b: n for b, n in exact_sums.double_parts(value) if n} == expected
    for number in [0, 5, -5, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1]:
        limbs = exact_sums.limbs_of_integers(np.array([number], dtype=np.int64))
        assert dict(exact_sums.integer_parts(number)) == {b: int(limb[0]) for b, limb in limbs.items()}
    for special in SPECIAL:
        with pytest.raises(OverflowError):
            exact_sums.double_parts(special)


def test_sums_beyond_bigint_are_still_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    app = bind(
        "CREATE STREAM s (i BIGINT) FROM synthetic (rate = 1);"
        "CREATE QUERY q AS SELECT i % 2 AS k, SUM(i) AS n FROM s [RANGE 10 SECONDS] GROUP BY i % 2;"
    )
    runtime = TaskRuntime(extract_tasks(app)[0], app)
    table = pa.table({"c0": pa.array([2**62, 2**62], pa.int64()), "_ts": pa.array([1, 2], pa.int64())})
    with pytest.raises(ValueError, match="SUM exceeds BIGINT"):
        runtime.step({"s": StreamInput([table], 10)})
