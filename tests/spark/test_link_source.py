"""A stream from another node in admission: its tuples wait for a policy, its watermark rows go with them at no cost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from kigen.connectors import Range
from kigen.lifetimes.blocks import FOREVER, NO_HOLDER
from kigen.lifetimes.exchange.sent import queue_schema
from kigen.links import READER, LinkServer, write_private
from kigen.plan import bind
from kigen.plan.logical import LINK, Connector, SourceStream
from kigen.queue import Queue, SchemaMismatch
from kigen.spark.admission.live_queues import Cursors, TaskQueue
from kigen.spark.admission.stream_arrivals import StreamArrivals
from kigen.spark.links.link_source import Access, LinkSource


@dataclass
class Bench:
    queue: Queue
    source: LinkSource

    def append(self, *rows: int | None) -> None:
        """Appends rows. A number is a tuple of that time, None is a watermark just after the last one."""
        last = -1
        columns: dict[str, list[int | None]] = {"c0": [], "_at": [], "_arrived": []}
        for row in rows:
            last = last if row is None else row
            for name, value in (("c0", row), ("_at", row), ("_arrived", last + 1 if row is None else 1000 + last)):
                columns[name].append(value)
        self.queue.append(
            pa.record_batch([pa.array(columns[f.name], f.type) for f in self.queue.schema], schema=self.queue.schema)
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    app = (
        "CREATE STREAM s (v BIGINT) FROM synthetic (rate = 1, v = 'sequence'); CREATE QUERY q AS SELECT v FROM s [NOW];"
    )
    (stream,) = bind(app).streams
    linked: SourceStream = replace(stream, source=Connector(LINK, (("queue", "s"), ("relation", False))))
    queue = Queue("s", queue_schema(stream.schema, is_stream=True))
    queue.open_reader("me")
    with LinkServer([queue]) as server:
        write_private(tmp_path / "reader", server.security.only(READER).token)
        yield Bench(queue, LinkSource(linked, Access(str(server.address), str(tmp_path / "reader"))))


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end
        time.sleep(0.01)


def start() -> Cursors:
    return {"s": {"index": 0, "progress": None, "ended": False}}


def test_another_servers_columns_are_refused(bench: Bench) -> None:
    bench.append(1, None)
    other = replace(bench.source.stream, schema=(replace(bench.source.stream.schema[0], name="w"),) * 2)
    source = LinkSource(other, bench.source._access)
    with pytest.raises(SchemaMismatch, match="required; got"):
        source.read(source.piece("s", 0, 2, None, False))
    with pytest.raises(SchemaMismatch, match="required; got"):
        until(lambda: source.arrived_by(0) == 2)


def test_marks_are_no_tuples(bench: Bench) -> None:
    bench.append(1, 2, None, None, 3, None, None)
    until(lambda: bench.source.arrived_by(0) == 7)
    arrivals, cursors = StreamArrivals("s", bench.source, None, 0), start()
    numbers, _ = arrivals.poll(0, 100)
    assert numbers.tolist() == [0, 1, 4]
    queue = TaskQueue(cursors, {"s": arrivals})
    assert len(queue) == 3
    taken = queue.take(0, 2)
    assert (taken.ranges[0].start["index"], taken.ranges[0].end["index"]) == (0, 4)  # with the marks behind them
    assert cursors["s"]["progress"] == 3
    assert len(queue) == 1
    assert queue.take(0, 1).ranges[0].end["index"] == 7
    bench.append(None, None)
    until(lambda: bench.source.arrived_by(0) == 9)
    assert not len(arrivals.poll(0, 100)[0])
    assert queue.passed == 2


def test_tuples_are_known_when_their_mark_is(bench: Bench) -> None:
    bench.append(1, None, 2)
    until(lambda: bench.source.arrived_by(0) == 2)
    bench.append(3)
    time.sleep(0.2)
    assert bench.source.arrived_by(0) == 2
    bench.append(None)
    until(lambda: bench.source.arrived_by(0) == 5)


@pytest.mark.parametrize("seed", range(5))
def test_however_it_is_looked_at_all_is_taken_and_nothing_waits_without_its_mark(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    rows: list[int | None] = [None if rng.random() < 0.4 else at for at in range(60)]
    bench.append(*rows, 60, None)
    total = len(rows) + 2
    until(lambda: bench.source.arrived_by(0) == total)
    arrivals, cursors = StreamArrivals("s", bench.source, None, 0), start()
    queue, seen, pieces = TaskQueue(cursors, {"s": arrivals}), 0, []
    while arrivals.known < total or len(queue):
        seen += len(arrivals.poll(0, rng.randrange(1, 9))[0])
        while len(queue) and rng.random() < 0.7:
            pieces.append(queue.take(0, rng.randrange(1, len(queue) + 1)).ranges[0])
    assert seen >= sum(row is not None for row in [*rows, 60])
    bounds = [(piece.start["index"], piece.end["index"]) for piece in pieces]
    assert [a for a, _ in bounds] == [0, *(b for _, b in bounds[:-1])]
    assert bounds[-1][1] == total, "the last tuple was taken without its mark"
    read = pa.concat_tables([bench.source._rows(*bound) for bound in bounds])
    assert read.num_rows == total


def test_dropped_tuples_take_no_deaths_and_no_watermarks_with_them(tmp_path: Path) -> None:
    """A relation: tuples 7 and 8 are born, 7 dies, 9 is born. FIRM drops the first three rows that are no watermarks:
    the death of 7 is one of them, and is read all the same."""
    (stream,) = bind("CREATE STREAM s (v BIGINT) FROM synthetic (rate = 1, v = 'sequence');").streams
    linked: SourceStream = replace(stream, source=Connector(LINK, (("queue", "s"), ("relation", True))))
    queue = Queue("s", queue_schema(stream.schema, is_stream=False))
    queue.open_reader("me")
    none = NO_HOLDER
    rows: list[tuple[int | None, ...]] = [  # c0, _from, _to, _holder, _arrived
        (7, 10, FOREVER, 70, 1),
        (None, None, None, none, 11),
        (8, 12, 20, none, 2),
        (None, None, 13, 70, 3),
        (None, None, None, none, 14),
        (9, 15, 30, none, 4),
        (None, None, None, none, 16),
    ]
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), queue.schema, strict=True)
    ]
    queue.append(pa.record_batch(columns, schema=queue.schema))
    with LinkServer([queue]) as server:
        write_private(tmp_path / "reader", server.security.only(READER).token)
        source = LinkSource(linked, Access(str(server.address), str(tmp_path / "reader")))
        until(lambda: source.arrived_by(0) == 7)
        arrivals, cursors = StreamArrivals("s", source, None, 0), start()
        arrivals.poll(0, 100)
        taken = TaskQueue(cursors, {"s": arrivals}).take(3, 1)
        assert taken.shed == {}
        (piece,) = taken.ranges
        read = source.read(Range.from_json(piece.to_json()))
        assert (piece.start["index"], piece.end["index"], cursors["s"]["progress"]) == (0, 7, 16)
        assert read.shed is not None
        assert read.shed.column("c0").to_pylist() == [7, 8]
        assert read.table.column("c0").to_pylist() == [None, 9], "the death of 7, and 9"
        assert read.given is not None
        assert read.given.progress_us == 16
