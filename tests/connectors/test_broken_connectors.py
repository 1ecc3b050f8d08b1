"""The suite for connectors finds what is wrong with broken ones, and says it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kigen.connectors import ConnectorSpec, Position, Range, Rows, Sink, SinkPosition, Source, option_kinds
from kigen.plan.connectors.registry import REGISTRY
from kigen.testing.connector import (
    Nonconforming,
    SinkCase,
    SourceCase,
    Target,
    check_sink,
    check_source,
)

COUNT = 10


class Numbers(Source):
    """The numbers 0 to 9, read with a fault."""

    def __init__(self, asked: Any) -> None:
        self._fault, self._reads = str(asked.stream.source.option("fault")), 0

    def initial(self) -> Position:
        return {"index": 0}

    def advance(self, position: Position, max_rows: int) -> Range:
        first = position["index"]
        end = min(COUNT, first + max_rows)
        start = {"index": first + 1} if self._fault == "gap" and first else position
        if self._fault == "stuck" and first == COUNT:
            return Range("s", position, position)
        return Range("s", start, {"index": end}, rows=end - first, ended=end == COUNT and self._fault != "stuck")

    def read(self, piece: Range) -> Rows:
        numbers = list(range(piece.start["index"], piece.end["index"]))
        self._reads += 1
        if self._fault == "loses" and len(numbers) > 4:
            numbers = numbers[1:]
        if self._fault == "twice" and 7 in numbers and len(numbers) == 1:
            numbers *= 2
        if self._fault == "other" and self._reads == 3:
            numbers = [n + 100 for n in numbers]
        if self._fault == "bad" and 3 in numbers:
            numbers.remove(3)
            return Rows(self._table(numbers), 1, ["somewhere a row is bad"])
        return Rows(self._table(numbers))

    def _table(self, numbers: list[int]) -> pa.Table:
        kind = pa.int32() if self._fault == "type" else pa.int64()
        ts: list[int | None] = [None if self._fault == "no time" and n == 4 else n for n in numbers]
        return pa.table({"c0": pa.array(numbers, kind), "_ts": pa.array(ts, pa.int64())})

    def fraction(self, position: Position) -> float | None:
        return 0.5 if self._fault == "fraction" else position["index"] / COUNT


class Lines(Sink):
    """Appends JSON lines to a file, with a fault."""

    def __init__(self, asked: Any) -> None:
        super().__init__(asked.schema, asked.is_stream, asked.changes)
        self._fault, self._path = str(asked.connector.option("fault")), Path(asked.path)
        self._waiting: list[str] = []

    def open(self, position: SinkPosition | None) -> None:
        kept = 0 if position is None or self._fault == "afresh" else position["bytes"]
        text = self._path.read_bytes() if self._path.exists() else b""
        if self._fault != "uncut":
            self._path.write_bytes(text[:kept])

    def write(self, table: pa.Table) -> None:
        for row in table.to_pylist():
            named = dict(zip(("id", "name", "value"), row.values(), strict=False))
            self._waiting.append(json.dumps({**row, **named}) + "\n")
        if self._fault in ("early", "uncut"):
            self._flush()

    def _flush(self) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.writelines(self._waiting)
        self._waiting = []

    def commit(self) -> SinkPosition:
        if self._fault != "forgets":
            self._flush()
        return {"bytes": self._path.stat().st_size}

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    fault, path = option_kinds.TEXT, option_kinds.PATH
    spec = ConnectorSpec("faulty", {"fault": fault, "path": path}, source=Numbers, sink=Lines)
    monkeypatch.setitem(REGISTRY.known, "faulty", spec)


def source(fault: str, **more: Any) -> SourceCase:
    return SourceCase(f"CREATE STREAM s (n BIGINT) FROM faulty (fault = '{fault}')", **more)


ROWS = [(n,) for n in range(COUNT)]


def test_a_source_without_fault() -> None:
    check_source(source("none", rows=ROWS))
    check_source(source("none"))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("loses", "2 rows are lost, such as"),
        ("twice", "1 rows are twice or new"),
        ("other", "rows are lost|other rows when it is read again"),
        ("gap", "gives a range that starts at"),
        ("stuck", "gives an empty range that is not the end"),
        ("type", "read gives the columns .*int32.*: required are .*int64"),
        ("no time", "`_ts` is NULL in some rows"),
        ("fraction", r"fraction at the end of the input is 0\.5"),
    ],
)
def test_faults_of_sources(fault: str, message: str) -> None:
    with pytest.raises(Nonconforming, match=message):
        check_source(source(fault, rows=ROWS))


def test_bad_rows_must_have_a_place() -> None:
    good = [row for row in ROWS if row != (3,)]
    with pytest.raises(Nonconforming, match=r"must raise kigen\.connectors\.InputError unless"):
        check_source(source("bad", rows=good, bad=["numbers:3"]))


def target(fault: str, folder: Path) -> Callable[[str], Target]:
    def made(name: str) -> Target:
        def read() -> list[dict[str, Any]]:
            return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]

        return Target(f"faulty (fault = '{fault}', path = '{name}')", read, folder)

    return made


@pytest.mark.parametrize("relation", [True, False])
def test_a_sink_without_fault(tmp_path: Path, relation: bool) -> None:
    check_sink(SinkCase(target("none", tmp_path), relation))
    check_sink(SinkCase(target("early", tmp_path), relation))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("forgets", "a run without failures: 60 of 60 rows are lost"),
        ("uncut", "killed after commit 0, with rows under way: 12 rows are there twice"),
        ("afresh", "killed after commit 1, with rows under way: 12 of 60 rows are lost"),
    ],
)
def test_faults_of_sinks(fault: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Nonconforming, match=message):
        check_sink(SinkCase(target(fault, tmp_path)))
