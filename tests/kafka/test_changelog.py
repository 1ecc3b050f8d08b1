"""CREATE TABLE ... FROM kafka (mode = 'upsert') on librdkafka's mock cluster: the newest message of a key is its row."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kigen.connectors import InputError
from kigen.connectors.kafka.changelog import Changelog
from kigen.connectors.registry import open_source
from kigen.connectors.table.versions import KeptTable, TableVersions
from kigen.language import CqlErrors
from kigen.lifetimes.windows.table_rows import BORN
from kigen.plan.binder import bind
from kigen.plan.logical import SourceStream


def declared(brokers: str, topic: str, clauses: str = "", mode: str = ", mode = 'upsert'") -> SourceStream:
    options = f"brokers = '{brokers}', topic = '{topic}', columns = 'k = key'{mode}"
    return bind(
        f"CREATE TABLE t (k STRING, v BIGINT) FROM kafka ({options}) {clauses};"
        "CREATE STREAM s (k STRING) FROM synthetic (rate = 1);"
        "CREATE QUERY q AS SELECT v FROM s [NOW] JOIN t ON s.k = t.k;"
    ).stream("t")


def send(cluster: Any, topic: str, key: str | None, value: int | None) -> None:
    body = None if value is None else {"v": value}
    cluster.send(topic, body, partition=sum(map(ord, key or "")) % 4, key=key)


def content(table: KeptTable) -> dict[str, int]:
    rows = table.now.rows
    return dict(zip(rows.column("c0").to_pylist(), rows.column("c1").to_pylist(), strict=True))


def kept(stream: SourceStream, folder: Path) -> KeptTable:
    return KeptTable(TableVersions(folder, stream.name, stream.schema, sync=False), stream)


def test_the_newest_message_of_a_key_is_true(cluster: Any, tmp_path: Path) -> None:
    rng, topic, true = Random(3), "upserts", dict[str, int]()
    stream = declared(cluster.brokers, topic)

    def some(count: int) -> None:
        for _ in range(count):
            key, value = f"k{rng.randrange(20)}", rng.choice([None, *range(5)])
            send(cluster, topic, key, value)
            true.pop(key, None)
            if value is not None:
                true[key] = value
        cluster.flush()

    some(200)
    source = open_source(stream, ".", False, None, str(tmp_path))
    first = source.advance(source.initial(), 10)
    rows = source.read(first).table
    assert dict(zip(rows.column("c0").to_pylist(), rows.column("c1").to_pylist(), strict=True)) == true
    table, log = kept(stream, tmp_path), Changelog(stream, ".")
    assert not log.follow(table)
    for turn in range(8):
        some(rng.randrange(1, 40))
        log.follow(table)
        assert content(table) == true
        if turn == 4:  # another process goes on from the files
            log.close()
            table, log = kept(stream, tmp_path), Changelog(stream, ".")
    log.close()
    alive: dict[int, tuple[str, int]] = {}
    position = first.start
    while (piece := source.advance(position, 10)).end != position:  # what executors read says the same
        for row in source.read(piece).table.to_pylist():
            if row[BORN]:
                alive[row["_row"]] = row["c0"], row["c1"]
            else:
                del alive[row["_row"]]
        position = piece.end
    assert dict(alive.values()) == true
    assert len(alive) == len(true)


def test_a_message_that_says_nothing_new_leaves_the_row_alive(cluster: Any, tmp_path: Path) -> None:
    stream = declared(cluster.brokers, "same")
    send(cluster, "same", "a", 1)
    cluster.flush()
    open_source(stream, ".", True, None, str(tmp_path)).initial()
    table, log = kept(stream, tmp_path), Changelog(stream, ".")
    send(cluster, "same", "a", 2)
    send(cluster, "same", "a", 1)
    send(cluster, "same", "gone", None)
    cluster.flush()
    log.follow(table)
    assert table.versions.newest() == 1
    send(cluster, "same", None, 3)
    cluster.flush()
    with pytest.raises(InputError, match="a message without a key"):
        log.follow(table)
    log.close()


def test_a_key_of_columns_is_checked(cluster: Any, tmp_path: Path) -> None:
    stream = declared(cluster.brokers, "keyed", "KEY (v)")
    send(cluster, "keyed", "a", 1)
    cluster.flush()
    open_source(stream, ".", True, None, str(tmp_path)).initial()
    table, log = kept(stream, tmp_path), Changelog(stream, ".")
    send(cluster, "keyed", "b", 1)
    cluster.flush()
    with pytest.raises(InputError, match=r"2 rows have the KEY \(v\) = \(1\)"):
        log.follow(table)
    log.close()


def test_the_mode_is_asked_for() -> None:
    with pytest.raises(CqlErrors, match="needs mode = 'upsert'"):
        declared("h:1", "t", mode="")


def test_messages_that_change_nothing_are_read_once(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "repeats"
    stream = declared(cluster.brokers, topic)
    send(cluster, topic, "a", 1)
    cluster.flush()
    source = open_source(stream, ".", False, None, str(tmp_path))
    source.read(source.advance(source.initial(), 10))
    table, log = kept(stream, tmp_path), Changelog(stream, ".")
    looked: list[int] = []
    newest = Changelog._newest

    def counted(self: Changelog, starts: Any, ends: Any) -> Any:
        looked.append(sum(ends.values()) - sum(starts.values()))
        return newest(self, starts, ends)

    monkeypatch.setattr(Changelog, "_newest", counted)
    for value in (1, 1, 2):
        send(cluster, topic, "a", value)
        cluster.flush()
        assert log.follow(table)
    assert not log.follow(table), "nothing has come"
    assert looked == [1, 1, 1]
    assert content(table) == {"a": 2}
    log.close()
