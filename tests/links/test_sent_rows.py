"""Rows for another node: the rows of a batch are one unit, recognised when it comes twice, and each row has an arrival
time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kigen.connectors import Range, Rows
from kigen.lifetimes.blocks import NO_HOLDER, Block, Fills, StreamBlock
from kigen.lifetimes.exchange.sent import SPACING_US, SentRows, is_end, is_watermark, last_of_end, queue_schema
from kigen.plan.binder import bind
from kigen.plan.logical import Query
from kigen.queue import ENDED, Queue, QueueFull, QueueSettings
from kigen.spark.links.link_sink import LinkSink
from kigen.spark.operator.arrival_times import ArrivalStamper

APP = """CREATE STREAM s (a BIGINT) FROM synthetic (rate = 10, a = 'sequence');
CREATE QUERY relation AS SELECT a FROM s [RANGE 1 SECONDS];
CREATE QUERY stream AS ISTREAM(SELECT a FROM s [RANGE 1 SECONDS]);
"""
RELATION, STREAM = bind(APP).queries
_UNKNOWN = 2**63 - 1


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def columns(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"c0": pa.array(values, pa.int64())})


def instants(*at: int, values: tuple[int, ...] | None = None) -> StreamBlock:
    return StreamBlock(columns(*(values or range(len(at)))), ints(*at), ints(*range(len(at))))


def rows(query: Query, message: Block | StreamBlock, now: int | None) -> pa.Table:
    found = SentRows(query).step(message, now)
    assert found is not None
    return found


def stamped(table: pa.Table, arrived_us: int = 7) -> pa.Table:
    return ArrivalStamper([], arrived_us).stamped(table)


# --- the queue as a sink --------------------------------------------------------------------------------------------


def queue_of(folder: Path) -> Queue:
    queue = Queue("r", queue_schema(STREAM.schema, True), QueueSettings(folder=folder, durable=True))
    queue.open_reader("other")
    queue.require(["other"])
    return queue


def batch(*values: int) -> pa.Table:
    return stamped(rows(STREAM, instants(*values, values=values), max(values) + 1))


def held(queue: Queue) -> list[int | None]:
    """Returns the values in order, None for a watermark row."""
    return [v for b in queue.read(0, 1 << 20).batches() for v in b.column("c0").to_pylist()]


def test_a_batch_that_is_replayed_is_in_the_queue_once(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        sink = LinkSink(STREAM, queue)
        sink.open(None)
        sink.write(batch(1, 2))
        first = sink.commit()
        assert sink.commit() == first, "nothing new: the same unit"
        sink.write(batch(3))
        sink.write(batch(4, 5))
        sink.commit()  # and before this position is recorded, the process is killed
    with queue_of(tmp_path) as queue:
        assert held(queue) == [1, 2, None, 3, None, 4, 5, None]
        again = LinkSink(STREAM, queue)
        again.open(first)
        again.write(batch(3))
        again.write(batch(4, 5))
        second = again.commit()
        again.write(batch(6))
        third = again.commit()
        assert held(queue) == [1, 2, None, 3, None, 4, 5, None, 6, None]
        assert (first, second, third) == ({"unit": 0}, {"unit": 1}, {"unit": 2})


def test_killed_before_anything_was_written_down(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        sink = LinkSink(STREAM, queue)
        sink.open(None)
        sink.write(batch(1))
        sink.commit()
        again = LinkSink(STREAM, queue)
        again.open(None)
        again.write(batch(1))
        again.commit()
        assert held(queue) == [1, None]


def test_rounds_that_are_committed_together_are_units_of_their_own_with_one_sync(tmp_path: Path) -> None:
    settings = QueueSettings(folder=tmp_path, durable=True, fsync="always")
    with Queue("r", queue_schema(STREAM.schema, True), settings) as queue:
        syncs = list[int]()
        sync = queue._store.sync
        queue._store.sync = lambda: (syncs.append(1), sync())[1]  # type: ignore[method-assign, func-returns-value]
        sink = LinkSink(STREAM, queue)
        sink.open(None)
        before = len(syncs)
        for value in (1, 2, 3):
            sink.write(batch(value))
            sink.end_round()
        assert sink.commit() == {"unit": 2}
        assert len(syncs) - before == 1
        again = LinkSink(STREAM, queue)  # the record of the last two rounds was not written
        again.open({"unit": 0})
        for value in (2, 3, 4, 5):
            again.write(batch(value))
            again.end_round()
        assert again.commit() == {"unit": 4}
        assert held(queue) == [1, None, 2, None, 3, None, 4, None, 5, None]
    with queue_of(tmp_path) as queue:  # read again from its files
        assert held(queue) == [1, None, 2, None, 3, None, 4, None, 5, None]


def test_units_that_do_not_fit_together_are_appended_one_by_one(tmp_path: Path) -> None:
    settings = QueueSettings(folder=tmp_path, durable=True, max_tuples=4)
    with Queue("r", queue_schema(STREAM.schema, True), settings) as queue:
        sink = LinkSink(STREAM, queue)
        sink.open(None)
        sink.write(batch(0))
        sink.commit()
        for value in (1, 2):
            sink.write(batch(value))
            sink.end_round()
        sink.interrupt()
        with pytest.raises(QueueFull):
            sink.commit()
        assert held(queue) == [0, None, 1, None]


def test_watermarks_without_rows_are_spaced() -> None:
    sent, every = SentRows(STREAM), SentRows(STREAM, every_step=True)
    given = [0, 5_000, 19_999, SPACING_US, SPACING_US + 1, 3 * SPACING_US]
    found = [now for now in given if sent.step(instants(), now) is not None]
    assert found == [0, SPACING_US, 3 * SPACING_US]
    assert all(every.step(instants(), now) is not None for now in given)
    assert sent.step(instants(3 * SPACING_US), 3 * SPACING_US + 1) is not None  # rows are never held back
    loaded = SentRows(STREAM)
    loaded.load(sent.state())
    assert loaded.step(instants(), 3 * SPACING_US + 2) is None
    assert loaded.step(instants(), 4 * SPACING_US + 1) is not None


def test_the_end_ends_the_queue(tmp_path: Path) -> None:
    with queue_of(tmp_path) as queue:
        sink, sent = LinkSink(STREAM, queue), SentRows(STREAM)
        sink.open(None)
        sink.write(batch(1))
        sink.commit()
        assert queue.status()["progress_us"] != ENDED
        last = sent.finish(Fills.none(), 41)
        assert last is not None
        sink.write(stamped(last))
        sink.commit()
        assert queue.status()["progress_us"] == ENDED
        mark = queue.read(0, 1 << 20).batches()
        (value,) = [v for b in mark for v in b.column("_arrived").to_pylist() if is_end(v)]
        assert last_of_end(value) == 41


# --- when the tuples behind rows arrived ----------------------------------------------------------------------------


def read(stream: str, at: list[int], arrived: list[int] | None) -> tuple[Range, Rows]:
    table = pa.table({"c0": pa.array(at, pa.int64()), "_ts": pa.array(at, pa.int64())})
    return Range(stream, {}, {}), Rows(table, arrivals_us=None if arrived is None else ints(*arrived))


def arrived(table: pa.Table) -> list[int]:
    """Returns the arrival times of the rows that are not watermark rows."""
    return list(table.filter(pa.compute.invert(is_watermark(table))).column("_arrived").to_pylist())


def test_a_result_arrived_with_the_newest_input_up_to_its_instant() -> None:
    stamps = ArrivalStamper(
        [read("s", [10, 20, 30], [1010, 1020, 1030]), read("t", [15, 35], [1040, 1050])], admitted_us=2000
    )
    message = instants(10, 14, 20, 35)
    # The tuple of t with timestamp 15 came at 1040, so whatever needs it and has a later instant came no sooner.
    assert arrived(stamps.stamped(rows(STREAM, message, 36))) == [1010, 1010, 1040, 1050]


def test_what_time_alone_causes_arrives_as_much_later() -> None:
    stamps = ArrivalStamper([read("s", [10], [1010])], admitted_us=1500)
    message = instants(60, 5000)
    assert arrived(stamps.stamped(rows(STREAM, message, 6000))) == [1060, 1500], "but no later than it was worked on"


def test_without_input_it_is_when_the_batch_was_admitted() -> None:
    message = instants(10, 20)
    assert arrived(ArrivalStamper([], 1500).stamped(rows(STREAM, message, 30))) == [1500, 1500]
    logs = ArrivalStamper([read("s", [10, 20], None)], admitted_us=1500)
    assert arrived(logs.stamped(rows(STREAM, message, 30))) == [1500, 1500]


@pytest.mark.parametrize("now", [30, None])
def test_births_deaths_and_marks_of_a_relation(now: int | None) -> None:
    """A birth counts at its `_from`, a fill at the death it reports; a watermark row keeps its own value."""
    stamps = ArrivalStamper([read("s", [10, 20], [1010, 1020])], admitted_us=1500)
    block = Block(columns(1, 2), ints(10, 20), ints(_UNKNOWN, 1_000_020), ints(5, NO_HOLDER), Fills(ints(3), ints(19)))
    told = stamps.stamped(rows(RELATION, block, now))
    assert arrived(told) == [1010, 1020, 1010]
    assert told.column("_holder").to_pylist()[:3] == [5, NO_HOLDER, 3]
    marks = told.filter(is_watermark(told)).column("_arrived").to_pylist()
    assert marks == ([] if now is None else [30])


def test_several_units_ahead_of_the_record_are_recognized(tmp_path: Path) -> None:
    """A group of rounds is in the queue, and the run is killed before the sink records it."""
    with queue_of(tmp_path) as queue:
        for _ in range(2):
            sink = LinkSink(STREAM, queue)
            sink.open(None)
            for value in (1, 2, 3):
                sink.write(batch(value))
                sink.end_round()
            assert sink.commit() == {"unit": 2}
            assert held(queue) == [1, None, 2, None, 3, None]
