"""States of older versions, in which the ids of all copies of a row are mixed, go on as they began."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.sets.counting import CountingOperator
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

APP = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'a.csv');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'b.csv');
CREATE QUERY q AS {body};
"""
BODIES = (
    "SELECT k FROM a [RANGE 40 SECONDS] EXCEPT SELECT k FROM b [RANGE 7 SECONDS]",
    "SELECT * FROM a [RANGE 40 SECONDS] SEMI JOIN b [RANGE 9 SECONDS] ON a.k = b.k",
    "SELECT * FROM a [ROWS 30] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k",
)
ROWS = 120


def _table(start: int, stop: int, keys: int) -> pa.Table:
    at = pa.array([i * 1_000_000 for i in range(start, stop)], pa.int64())
    key = pa.array([i * 7 % keys for i in range(start, stop)], pa.int64())
    return pa.table({"c0": key, "c1": at.cast(pa.timestamp("us")), "_ts": at})


class Run:
    """A kernel that is fed in pieces."""

    def __init__(self, body: str, mode: str) -> None:
        self._app = bind(APP.format(body=body))
        (self._task,) = extract_tasks(self._app)
        self._mode, self.lines = mode, list[tuple[Any, ...]]()
        self.runtime = TaskRuntime(self._task, self._app, mode)

    def feed(self, start: int, stop: int) -> None:
        for at in range(start, stop, 20):
            end = at + 20 == ROWS
            given = {s: StreamInput([_table(at, at + 20, keys)], ended=end) for s, keys in (("a", 5), ("b", 11))}
            for table in self.runtime.step(given).outputs.values():
                self.lines += zip(*(column.to_pylist() for column in table.columns), strict=True)

    def start_again(self) -> None:
        saved = self.runtime.snapshot()
        self.runtime = TaskRuntime(self._task, self._app, self._mode)
        self.runtime.restore(saved)

    @property
    def counting(self) -> list[CountingOperator]:
        return [operator for operator in self.runtime.operators if isinstance(operator, CountingOperator)]


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("body", BODIES)
def test_an_older_state_goes_on(body: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, older = Run(body, mode), Run(body, mode)
    plain.feed(0, ROWS)
    assert older.counting
    for operator in older.counting:
        operator._mixed_ids = True
    older.feed(0, 60)
    state = CountingOperator.state
    with monkeypatch.context() as patched:
        patched.setattr(
            CountingOperator, "state", lambda self: {k: v for k, v in state(self).items() if k != "mixed_ids"}
        )
        older.start_again()
    assert all(operator._mixed_ids for operator in older.counting)
    older.feed(60, 80)
    older.start_again()
    older.feed(80, ROWS)
    assert len(plain.lines) > 20
    assert sorted(older.lines, key=repr) == sorted(plain.lines, key=repr)
