"""What a checkpoint keeps of results, read by offsets: only what is committed, the same each time, and what is refused."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.datasource_internal import _streamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from kigen.connectors import InputError
from kigen.connectors.changes_log import ChangesLog
from kigen.engine.checkpoint.app_record import first_record, write_record
from kigen.plan import bind
from kigen.plan.logical import App
from kigen.spark.kept_results.kept import KeptResults, kept_results
from kigen.spark.kept_results.source import ResultsSource
from kigen.spark.sink.results import results_sink
from kigen.spark.sink.round_records import RoundRecord, RoundRecords
from kigen.spark.sink.sink_log import SinkLog, SinkRecord

APP = """
CREATE STREAM s (room STRING, n BIGINT, x DOUBLE, price DECIMAL(9, 2), at TIMESTAMP) FROM http ();
CREATE QUERY hot AS SELECT room, n, x, price, at FROM s [RANGE 10 SECONDS];
"""


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = bind(APP)
    write_record(tmp_path, first_record(made, {"kigen": "0.1.0", "streams": {}, "queries": {}}), sync=False)
    return made


def lines(first: int, end: int, changes: bool = False) -> pa.Table:
    count = end - first
    doubles = [float("nan") if n % 3 == 1 else n / 4 for n in range(first, end)]
    columns = {
        "c0": [f"r{n}" for n in range(first, end)],
        "c1": pa.array(range(first, end), pa.int64()),
        "c2": pa.array(doubles, pa.float64()),
        "c3": pa.array([None] * count, pa.decimal128(9, 2)),
        "c4": pa.array([n * 1_000_000 for n in range(first, end)], pa.timestamp("us")),
    }
    born = pa.array([1_000_000 + n for n in range(first, end)], pa.int64())
    times: dict[str, Any] = {"_from": born, "_to": pa.array([None] * count, pa.int64())}
    return pa.table(columns | ({"_at": born, "_op": ["insert"] * count} if changes else times))


def numbers(kept: KeptResults, start: dict[str, int], end: dict[str, int]) -> list[int]:
    kept = pickle.loads(pickle.dumps(kept))
    batches = [batch for piece in kept.partitions(start, end) for batch in kept.read(*piece)]
    for batch in batches:
        assert batch.schema.equals(kept.arrow_schema)
    return [n for batch in batches for n in batch.column("n").to_pylist()]


def test_lines_are_read_up_to_what_is_committed(app: App, tmp_path: Path) -> None:
    sink, log = results_sink(app.queries[0], tmp_path / "results"), SinkLog(str(tmp_path))
    sink.open(None)
    kept = kept_results(str(tmp_path), "HOT")
    first = kept.first()
    assert kept.latest(first) == first
    for batch in range(3):
        sink.write(lines(batch * 5, batch * 5 + 5))
        position = sink.commit()
        if batch < 2:  # of the last one, the part is there, but not its record
            log.append(SinkRecord(batch, {"hot results": position}, {}), sync=False)
    end = kept.latest(first)
    assert end == {"parts": 2}
    assert numbers(kept, first, end) == numbers(kept, first, end) == list(range(10))
    assert numbers(kept, {"parts": 1}, end) == list(range(5, 10))
    assert kept.arrow_schema.names == ["room", "n", "x", "price", "at", "_from", "_to"]
    with pytest.raises(InputError, match="read up to 3 parts, and the run has committed 2"):
        kept.latest({"parts": 3})


def test_changes_are_read_with_the_rounds_of_the_running_epoch(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    log = ChangesLog(tmp_path / "changes" / "hot", app.queries[0].schema, False, 1.0, lambda: clock[0])
    log.open(None)
    kept = kept_results(str(tmp_path), "hot")
    first = kept.first()
    log.write(lines(0, 4, changes=True))
    SinkLog(str(tmp_path)).append(SinkRecord(0, {"hot changes": log.commit()}, {}), sync=False)
    rounds = RoundRecords(str(tmp_path), 1)
    rounds.start([], sync=False)
    log.write(lines(4, 6, changes=True))
    rounds.append([RoundRecord(0, 1, 1, 0, {"hot changes": log.commit()})], sync=False)
    log.write(lines(6, 8, changes=True))  # not committed
    middle = kept.latest(first)
    assert numbers(kept, first, middle) == list(range(6))
    assert kept.arrow_schema.names == ["room", "n", "x", "price", "at", "_op", "_at"]
    rounds.append([RoundRecord(0, 2, 2, 0, {"hot changes": log.commit()})], sync=False)
    assert numbers(kept, middle, kept.latest(middle)) == [6, 7]
    rounds.close()
    log.close()


def test_a_late_reader_of_changes_begins_with_what_was_true(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kigen.connectors.changes_log.log.SEGMENT_BYTES", 10)
    folder = tmp_path / "changes" / "hot"
    log = ChangesLog(folder, app.queries[0].schema, False, 0.0, lambda: 1e12)
    log.open(None)
    for n in range(6):
        log.write(lines(n, n + 1, changes=True))
        SinkLog(str(tmp_path)).append(SinkRecord(n, {"hot changes": log.commit()}, {}), sync=False)
    kept = kept_results(str(tmp_path), "hot")
    first = kept.first()
    assert first["bytes"] > 0
    assert sorted(numbers(kept, first, kept.latest(first))) == list(range(6))
    with pytest.raises(InputError, match="from byte 0 on are not kept any more"):
        numbers(kept, {"bytes": 0}, kept.latest(first))
    log.close()


@pytest.mark.parametrize("mode", ["append", "changes"])
def test_spark_takes_every_type(tmp_path: Path, mode: str) -> None:
    """As Spark's workers do: schema, offsets, partitions, and batches that must have the very types of the schema."""
    columns = "a BIGINT, b BLOB, c STRUCT(x DOUBLE, y STRING)[], d DATE, e DECIMAL(5, 1), f BOOLEAN, g UUID"
    text = f"CREATE STREAM s ({columns}) FROM http (); CREATE QUERY q AS SELECT * FROM s [RANGE 1 SECONDS];"
    app = bind(text)
    write_record(tmp_path, first_record(app, {"kigen": "0.1.0", "streams": {}, "queries": {}}), sync=False)
    query, values = (
        app.queries[0],
        [7, b"x", [{"x": 1.5, "y": None}], date(2026, 1, 2), Decimal("2.5"), True, str(UUID(int=1))],
    )
    row = {
        f"c{i}": pa.array([value], c.type.arrow) for i, (value, c) in enumerate(zip(values, query.schema, strict=True))
    }
    if mode == "append":
        sink: Any = results_sink(query, tmp_path / "results")
        row |= {"_from": pa.array([1], pa.int64()), "_to": pa.array([None], pa.int64())}
    else:
        sink = ChangesLog(tmp_path / "changes" / "q", query.schema, False, 60.0)
        row |= {"_op": pa.array(["insert"]), "_at": pa.array([1], pa.int64())}
    sink.open(None)
    sink.write(pa.table(row))
    name = "q results" if mode == "append" else "q changes"
    SinkLog(str(tmp_path)).append(SinkRecord(0, {name: sink.commit()}, {}), sync=False)
    sink.close()
    source = ResultsSource({"path": str(tmp_path), "query": "q"})
    schema = source.schema()
    assert not isinstance(schema, str)
    stream, batch = _streamReader(source, schema), source.reader(schema)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    for reader, parts in ((stream, stream.partitions(start, end)), (batch, batch.partitions())):
        (found,) = [b for p in parts for b in records_to_arrow_batches(reader.read(p), 100, schema, source)]
        assert list(found.to_pylist()[0].values())[:7] == values


def test_what_is_missing_is_named(app: App, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs the options path"):
        kept_results(None, "hot")
    with pytest.raises(InputError, match="no checkpoint of a run is here"):
        kept_results(str(tmp_path / "elsewhere"), "hot")
    with pytest.raises(InputError, match="the run has no query 'hat'; did you mean hot"):
        kept_results(str(tmp_path), "hat")
    with pytest.raises(InputError, match=r"keeps nothing: start it with keep_results=True"):
        kept_results(str(tmp_path), "hot")
    (tmp_path / "results" / "hot").mkdir(parents=True)
    with pytest.raises(InputError, match="keeps lines, and mode changes was asked for"):
        kept_results(str(tmp_path), "hot", "changes")
    with pytest.raises(InputError, match="mode must be one of append, changes"):
        kept_results(str(tmp_path), "hot", "both")
