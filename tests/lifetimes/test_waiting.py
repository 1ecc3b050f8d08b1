"""When a task needs a batch: also when only the passing of time releases tuples that it has taken in."""

from __future__ import annotations

import pyarrow as pa

from kigen.lifetimes import StreamInput
from kigen.lifetimes.runtime import TaskRuntime
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks

APP = """
CREATE STREAM a (v BIGINT) FROM synthetic (rate = 1, v = 'sequence');
CREATE STREAM b (v BIGINT) FROM synthetic (rate = 1, v = 'sequence');
CREATE QUERY q AS SELECT a.v FROM a [NOW], b [NOW] WHERE a.v = b.v;
"""


def given(progress_us: int, *times: int) -> StreamInput:
    table = pa.table({"c0": pa.array(times, pa.int64()), "_ts": pa.array(times, pa.int64())})
    return StreamInput([table], progress_us)


def test_tuples_that_wait_for_another_stream_are_waited_for() -> None:
    app = bind(APP)
    (task,) = extract_tasks(app)
    kernel = TaskRuntime(task, app)
    assert kernel.step({"a": given(10, 4, 7), "b": given(3)}).next_event_us == 5  # 4 goes on when b has come to 5
    assert kernel.step({"b": given(5, 4)}).next_event_us == 8
    assert kernel.step({"b": given(11)}).next_event_us is None
