"""The ingest queue: batches whole or not at all, keys over restarts, BUFFER, trimming, and the arrival clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from kigen.connectors import InputError
from kigen.connectors.pushed import (
    BatchTooLarge,
    IngestFull,
    IngestQueue,
    KeyReused,
    PushRefused,
    batch_keys,
    decode_batch,
    ingest_queue,
)
from kigen.connectors.pushed.arrival_clock import NOTHING_PENDING, ArrivalClock
from kigen.connectors.pushed.left_out import LeftOut, left_out_of
from kigen.plan import bind
from kigen.plan.logical import SourceStream
from kigen.spark.admission.shedding import BatchShedding

NOW_US = 1_800_000_000_000_000
LINES = "application/x-ndjson"


def stream_of(clauses: str = "") -> SourceStream:
    app = f"CREATE STREAM s (k STRING, v DOUBLE) {clauses} FROM http (); CREATE QUERY q AS SELECT k FROM s [NOW];"
    return bind(app).streams[0]


def opened(folder: Path, clauses: str = "", **how: int) -> IngestQueue:
    return IngestQueue(stream_of(clauses), folder, folder / "clock", syncs=False, **how)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[IngestQueue]:
    made = opened(tmp_path)
    yield made
    made.close()


def push(queue: IngestQueue, text: str, key: str | None = None) -> tuple[int, bool]:
    data = text.encode()
    done = queue.push(decode_batch(data, LINES, queue.stream, NOW_US), key, data)
    return done.accepted, done.repeated


def rows(queue: IngestQueue) -> list[tuple[object, ...]]:
    status = queue.queue.status()
    if status["end"] == status["start"]:
        return []
    return [(row["c0"], row["c1"]) for row in queue.queue.read(status["start"]).batch().to_pylist()]


def test_a_batch_is_stamped_once_and_stamps_never_go_back(queue: IngestQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([50_000, 50_000, 40_000, 40_000])
    own_time = SimpleNamespace(time_ns=lambda: next(clock), monotonic=time.monotonic)  # threads of other tests go on
    monkeypatch.setattr(ingest_queue, "time", own_time)
    push(queue, '{"k": "a", "v": 1}\n{"k": "b"}\n')
    push(queue, '{"k": "c", "v": 2.5}')
    batch = queue.queue.read(0).batch()
    assert batch.column("c0").to_pylist() == ["a", "b", "c"]
    assert batch.column("c1").to_pylist() == [1.0, None, 2.5]
    assert batch.column("_arrived").to_pylist() == [50, 50, 50]


def test_a_bad_row_refuses_the_batch(queue: IngestQueue) -> None:
    with pytest.raises(InputError, match=r"batch:2: field 'v': DOUBLE required, found '\"x\"'"):
        push(queue, '{"k": "a", "v": 1}\n{"k": "b", "v": "x"}\n')
    assert rows(queue) == []


def test_bad_rows_are_left_out_and_counted_where_the_stream_says_so(tmp_path: Path) -> None:
    queue = opened(tmp_path, "ON ERROR SKIP")
    data = b'{"k": "a", "v": 1}\n{"k": "b", "v": "x"}\n'
    done = queue.push(decode_batch(data, LINES, queue.stream, NOW_US))
    assert (done.accepted, done.skipped) == (1, 1)
    notes = queue.queue.read(0).batch().column("_note").to_pylist()
    found = left_out_of([note for note in notes if note])
    assert found.skipped == 1
    assert found.errors == ["batch:2: field 'v': DOUBLE required, found '\"x\"': write a number such as 1.5 or 2e-3"]
    assert found.bad == ()
    queue.close()


def test_bad_rows_travel_with_the_next_good_one_for_on_error_into(tmp_path: Path) -> None:
    queue = opened(tmp_path, "ON ERROR INTO csv (path = 'bad.csv')")
    for data in (b'{"k": 1}\n', b'{"k": "a"}\n{"v": "x"}\n'):
        queue.push(decode_batch(data, LINES, queue.stream, NOW_US))
    (note,) = queue.queue.read(0).batch().column("_note").to_pylist()
    found = left_out_of([note])
    assert found.skipped == 2
    assert [(row.text, row.place) for row in found.bad] == [('{"k": 1}', "batch:1"), ('{"v": "x"}', "batch:2")]
    queue.close()


def test_a_key_makes_a_repeated_batch_safe_over_restarts_and_trims(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    first, second = '{"k": "a"}\n{"k": "b"}', '{"k": "c"}'
    assert push(queue, first, "1") == (2, False)
    assert push(queue, first, "1") == (2, True)
    assert push(queue, second, "2") == (1, False)
    with pytest.raises(KeyReused, match="belongs to another batch"):
        push(queue, second, "1")
    queue.close()
    queue = opened(tmp_path)  # both batches are still in the queue
    assert push(queue, first, "1") == (2, True)
    queue.committed(2, 3)  # the first one is not needed any more
    assert rows(queue) == [("c", None)]
    queue.close()
    queue = opened(tmp_path)
    assert push(queue, first, "1") == (2, True)
    assert push(queue, second, "2") == (1, True)
    assert rows(queue) == [("c", None)]
    queue.close()


def test_a_torn_line_of_keys_is_forgotten_and_the_queue_still_knows_it(tmp_path: Path) -> None:
    queue = opened(tmp_path)
    push(queue, '{"k": "a"}', "1")
    push(queue, '{"k": "b"}', "2")
    queue.committed(1, 2)
    queue.close()
    log = tmp_path / "s" / ingest_queue.KEYS
    log.write_bytes(log.read_bytes() + b'{"key": "2", "dig')
    queue = opened(tmp_path)
    assert push(queue, '{"k": "b"}', "2") == (1, True)
    queue.committed(2, 2)
    queue.close()
    assert [batch_keys.BatchKeys(log, False).find(key) is not None for key in "12"] == [True, True]


def test_the_oldest_keys_are_forgotten_and_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_keys, "MOST_KEYS", 3)
    monkeypatch.setattr(ingest_queue, "_TRIM_EVERY_S", 0.0)
    queue = opened(tmp_path)
    for i in range(20):
        push(queue, '{"k": "a"}', str(i))
        queue.committed(i + 1, i + 1)
    assert push(queue, '{"k": "a"}', "19") == (1, True)
    assert push(queue, '{"k": "a"}', "16") == (1, False), "only the newest three are known"
    queue.close()
    assert len((tmp_path / "s" / ingest_queue.KEYS).read_bytes().splitlines()) <= 8


def test_shed_keeps_the_most_valuable_tuples_and_notes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of("SHED ABOVE 2 PER SECOND BY v INTO csv (path = 'shed.csv')")
    assert stream.shed is not None
    queue = IngestQueue(stream, tmp_path, tmp_path / "clock", syncs=False, keeps=BatchShedding(stream.shed))
    clock = [5_999_999]  # the end of a second
    monkeypatch.setattr(ingest_queue.time, "time_ns", lambda: clock[0] * 1000)
    data = b'{"k": "a", "v": 1}\n{"k": "b", "v": 3}\n{"k": "c"}\n{"k": "d", "v": 2}\n'
    done = queue.push(decode_batch(data, LINES, stream, NOW_US))
    assert (done.accepted, done.shed) == (2, 2)
    assert rows(queue) == [("b", 3.0), ("d", 2.0)]
    done = queue.push(decode_batch(b'{"k": "e", "v": 9}\n', LINES, stream, NOW_US))
    assert (done.accepted, done.shed) == (0, 1), "the second is full, and the next batch reports it"
    clock[0] = 6_100_000
    assert push(queue, '{"k": "f", "v": 0}\n{"k": "g", "v": 5}') == (1, False), "a tenth of the second has passed"
    assert [row[0] for row in rows(queue)] == ["b", "d", "g"]
    notes = [note for note in queue.queue.read(0).batch().column("_note").to_pylist() if note]
    tables = [left_out_of([note]).shed_table(stream) for note in notes]
    found = [[(row["c0"], row["_ts"]) for row in table.to_pylist()] for table in tables if table is not None]
    assert found == [[("a", 5_999_999), ("c", 5_999_999)], [("e", 5_999_999), ("f", 6_100_000)]]
    queue.close()


def test_a_repeated_batch_of_which_nothing_was_kept_is_left_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_of("SHED ABOVE 1 PER SECOND BY v INTO csv (path = 'shed.csv')")
    assert stream.shed is not None
    queue = IngestQueue(stream, tmp_path, tmp_path / "clock", syncs=False, keeps=BatchShedding(stream.shed))
    clock = [5_999_999]
    monkeypatch.setattr(ingest_queue.time, "time_ns", lambda: clock[0] * 1000)
    assert push(queue, '{"k": "a", "v": 1}') == (1, False)
    lost = b'{"k": "b", "v": 1}\n'
    done = [queue.push(decode_batch(lost, LINES, stream, NOW_US), "key", lost) for _ in range(2)]
    clock[0] = 7_999_999  # there is room again
    done.append(queue.push(decode_batch(lost, LINES, stream, NOW_US), "key", lost))
    assert [(one.accepted, one.shed, one.repeated) for one in done] == [(0, 1, False), (0, 0, True), (0, 0, True)]
    assert push(queue, '{"k": "c", "v": 1}') == (1, False)
    assert [row[0] for row in rows(queue)] == ["a", "c"]
    notes = [note for note in queue.queue.read(0).batch().column("_note").to_pylist() if note]
    table = left_out_of(notes).shed_table(stream)
    assert table is not None
    assert table.column("c0").to_pylist() == ["b"], "once"
    queue.close()


def test_shed_tuples_are_only_counted_if_nothing_takes_them(tmp_path: Path) -> None:
    stream = stream_of("SHED ABOVE 1 PER SECOND")
    left_out = LeftOut().with_shed(stream, pa.table({"c0": ["a"], "c1": [1.0], "_ts": [7]}))
    assert left_out.to_json() == {"shed": 1}
    again = left_out_of(['{"shed": 1}', '{"shed": 2}']).shed_table(stream)
    assert again is not None
    assert (again.num_rows, again.column_names) == (3, ["c0", "c1", "_ts"])


def test_buffer_makes_senders_wait_until_tuples_are_processed(tmp_path: Path) -> None:
    queue = opened(tmp_path, "BUFFER 3")
    push(queue, '{"k": "a"}\n{"k": "b"}')
    with pytest.raises(IngestFull, match="2 tuples wait, and 2 more do not fit BUFFER 3"):
        push(queue, '{"k": "c"}\n{"k": "d"}')
    queue.committed(0, 2)  # processed, though a replay may need them
    assert push(queue, '{"k": "c"}\n{"k": "d"}') == (2, False)
    with pytest.raises(BatchTooLarge, match="4 tuples does not fit BUFFER 3"):
        push(queue, '{"k": "c"}\n' * 4)
    assert queue.status()["waiting"] == 2
    assert queue.status()["refused"] == 1
    queue.close()


def test_a_full_queue_is_trimmed_before_a_sender_is_told_to_wait(tmp_path: Path) -> None:
    queue = opened(tmp_path, max_bytes=2_000)
    taken = 0
    while queue.refused == 0:
        with suppress(IngestFull):
            push(queue, '{"k": "abc"}')
            taken += 1
    queue.committed(1, taken)
    queue.committed(taken, taken)  # too early to trim again
    assert push(queue, '{"k": "abc"}') == (1, False)
    queue.close()


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb"])
def test_a_key_is_short_and_printable(queue: IngestQueue, key: str) -> None:
    with pytest.raises(PushRefused, match="1 to 200 printable"):
        push(queue, '{"k": "a"}', key)


def test_the_clock_holds_a_watermark_back_while_an_append_waits_for_the_disk(
    queue: IngestQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ArrivalClock(tmp_path / "clock")
    assert reader.look() == (NOTHING_PENDING, 0)
    append, seen = queue.queue.append, []

    def slow(*args: object, **how: object) -> object:
        seen.append((reader.look(), how["progress_us"]))
        return append(*args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(queue.queue, "append", slow)
    push(queue, '{"k": "a"}')
    (((pending_us, end), stamp),) = seen
    assert end == 0
    assert pending_us <= stamp, "the announced time is a lower bound of the stamp"
    assert reader.look() == (NOTHING_PENDING, 1)
