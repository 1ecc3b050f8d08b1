"""Joins that queries share: random families against the oracle and separate joins, and one timeline by hand.

    a:  t = 0                  5
    b:           3                      9
RANGE 4: (0,3) on [3,4)   (5,3) on [5,7)   (5,9) on -      a dies at 4 and 9, b at 7 and 13
RANGE 9: (0,3) on [3,9)   (5,3) on [5,12)  (5,9) on [9,14)
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from oracle.drive import judged_family
from seeds import seeds

from kigen.lifetimes import StreamInput, TaskRuntime, runtime
from kigen.lifetimes.joins.open_pairs import numbered
from kigen.lifetimes.joins.shared_join import SharedJoinOperator
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.plan.tasks import extract_tasks


@pytest.mark.parametrize("seed", seeds(20, 40))
def test_random_family(seed: int) -> None:
    assert judged_family(seed) == ""


@pytest.mark.parametrize("seed", range(700, 710))
def test_pieces_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "STEP_TUPLES", 3)
    assert judged_family(seed) == ""


def app_of(*windows: str) -> App:
    streams = "".join(
        f"CREATE STREAM {s} (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'x');" for s in "ab"
    )
    queries = [
        f"CREATE QUERY q{i} AS SELECT a.ts AS x, b.ts AS y FROM a {w}, b {w} WHERE a.k = b.k;"
        for i, w in enumerate(windows)
    ]
    return bind("".join([streams, *queries]))


def kernel_of(app: App, mode: str) -> TaskRuntime:
    (task,) = extract_tasks(app)
    return TaskRuntime(task, app, mode)


def given(times: list[int], ended: bool = True) -> StreamInput:
    ts = pa.array(times, pa.int64())
    return StreamInput(
        [pa.table({"c0": pa.array([1] * len(times), pa.int64()), "c1": ts.cast(pa.timestamp("us")), "_ts": ts})],
        None,
        ended,
    )


def lines(table: pa.Table) -> set[tuple[int | None, ...]]:
    columns = [table.column(i).cast(pa.int64()).to_pylist() for i in range(4)]
    return set(zip(*columns, strict=True))


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_every_window_gives_its_own_lifetimes(mode: str) -> None:
    app = app_of("[RANGE 4 MICROSECONDS]", "[RANGE 9 MICROSECONDS]", "[NOW]")
    result = kernel_of(app, mode).step({"a": given([0, 5]), "b": given([3, 9])})
    assert lines(result.outputs["q0"]) == {(0, 3, 3, 4), (5, 3, 5, 7)}
    assert lines(result.outputs["q1"]) == {(0, 3, 3, 9), (5, 3, 5, 12), (5, 9, 9, 14)}
    assert "q2" not in result.outputs


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_rows_of_one_instant_push_each_other_out(mode: str) -> None:
    """Three rows arrive at one instant; the first two never live in ROWS 1."""
    app = app_of("[ROWS 1]", "[ROWS 2]")
    result = kernel_of(app, mode).step({"a": given([0, 5]), "b": given([2, 2, 2, 7])})
    assert lines(result.outputs["q0"]) == {(0, 2, 2, 5), (5, 2, 5, 7), (5, 7, 7, None)}
    two = {(0, 2, 2, 7), (0, 2, 2, None), (5, 2, 5, 7), (5, 2, 5, None), (0, 7, 7, None), (5, 7, 7, None)}
    assert lines(result.outputs["q1"]) == two


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_tuples_are_kept_once_for_the_widest_window(mode: str) -> None:
    """With a hundred windows, the state of the join is that of the widest window alone."""
    windows = [f"[RANGE {4 * i} MICROSECONDS]" for i in range(1, 101)]
    inputs = {"a": given(list(range(0, 800, 2)), False), "b": given(list(range(1, 801, 2)), False)}
    shared, one = kernel_of(app_of(*windows), mode), kernel_of(app_of("[RANGE 399 MICROSECONDS]", windows[-1]), mode)
    for kernel in (shared, one):
        kernel.step(inputs)
    assert _kept(shared) == _kept(one)


def test_sharing_can_be_switched_off_to_be_measured() -> None:
    app = app_of("[ROWS 1]", "[ROWS 2]")
    assert len(extract_tasks(app)) == 1
    assert len(extract_tasks(replace(app, sharing=False))) == 2


def _kept(kernel: TaskRuntime) -> int:
    (join,) = [op for op in kernel.operators if isinstance(op, SharedJoinOperator)]
    return join.held


def test_numbers_of_pairs_begin_again() -> None:
    assert numbered(3, 4, 10).tolist() == [3, 4, 5, 6]
    assert numbered(8, 4, 10).tolist() == [8, 9, 0, 1]
    assert numbered(6, 4, 10).tolist() == [6, 7, 8, 9]
