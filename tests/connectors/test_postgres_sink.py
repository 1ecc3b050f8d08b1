"""INTO postgres on a real server: text and types, exactly once over restarts and lost connections, and what is
refused."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from kigen_lab.servers.postgres_server import PostgresServer as Server

from kigen.connectors import InputError, OptionError, Sink, open_sink
from kigen.connectors.postgres.database import Interrupted
from kigen.plan.logical import Connector
from kigen.plan.types import Column, Type, arrow_schema

SCHEMA = (
    Column("a", Type.STRING),
    Column("x", Type.DOUBLE),
    Column("ok", Type.BOOLEAN),
    Column("t", Type.TIMESTAMP),
    Column("n", Type.BIGINT),
)
KEYED = (Column("Room", Type.STRING), Column("n", Type.BIGINT))
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    started.start()
    yield started
    started.remove()


@pytest.fixture(autouse=True)
def _url(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIGEN_TEST_PG", server.url)


def sink_of(table: str, schema: Any = KEYED, is_stream: bool = False, run: str = "run", **options: Any) -> Sink:
    given = {"url_env": "KIGEN_TEST_PG", "table": table, **options}
    sink = open_sink(Connector("postgres", tuple(given.items())), schema, is_stream, "/", "q")
    sink.run_name = run
    return sink


def current(table: str, run: str = "run") -> Sink:
    return sink_of(table, run=run, mode="current", key="room")


def lines(rows: list[tuple[Any, ...]], schema: Any, to: int | None = 5) -> pa.Table:
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow_schema(schema))]
    times = [pa.array(range(len(rows)), pa.int64()), pa.array([to] * len(rows), pa.int64())]
    return pa.table([*columns, *times], names=[f"c{i}" for i in range(len(schema))] + ["_from", "_to"])


def changes(*rows: tuple[str, int, str, int]) -> pa.Table:
    """Each row: `_op`, `_at`, room, n."""
    ops, at, rooms, numbers = (list(c) for c in zip(*rows, strict=True))
    return pa.table({"c0": pa.array(rooms), "c1": pa.array(numbers), "_at": pa.array(at), "_op": pa.array(ops)})


def at(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


def test_values_of_every_type(server: Server) -> None:
    sink = sink_of("kinds", SCHEMA)
    assert sink.commit_interval_us == 100_000
    sink.open(None)
    day = datetime(2026, 1, 2, 3, 4, 5, 6)
    sink.write(lines([("", -0.0, True, day, 2**62), (None,) * 5], SCHEMA, None))
    sink.write(
        lines([('say "hi",\n\\N', math.inf, False, datetime(1, 1, 1), -1), ("é\t", math.nan, None, None, 0)], SCHEMA)
    )
    assert sink.commit() == {"rows": 4}
    sink.close()
    found = server.rows("SELECT * FROM kinds ORDER BY _to NULLS FIRST, _from")
    assert found[0] == ("", 0.0, True, day.replace(tzinfo=UTC), 2**62, at(0), None)
    assert found[1] == (None,) * 5 + (at(1), None)
    assert found[2] == ('say "hi",\n\\N', math.inf, False, datetime(1, 1, 1, tzinfo=UTC), -1, at(0), at(5))
    assert found[3][0] == "é\t"
    assert math.isnan(found[3][1])


def test_a_stream_is_appended_with_its_times(server: Server) -> None:
    sink = sink_of("public.streamed", is_stream=True)
    sink.open(None)
    sink.write(pa.table({"c0": ["a"], "c1": [1], "_at": pa.array([7], pa.int64())}))
    sink.commit()
    sink.close()
    assert server.rows('SELECT "Room", n, _at FROM streamed') == [("a", 1, at(7))]


def test_append_leaves_out_what_a_lost_position_had_stored(server: Server) -> None:
    first, second, third = (lines([(f"r{i}", i)], KEYED) for i in range(3))
    sink = sink_of("lost")
    sink.open(None)
    sink.write(first)
    recorded = sink.commit()
    sink.write(second)
    sink.commit()  # the process dies before this position is recorded
    sink.close()
    again = sink_of("lost")
    again.open(recorded)
    again.write(pa.concat_tables([second, third]))
    assert again.commit() == {"rows": 3}
    again.close()
    assert server.rows("SELECT n FROM lost ORDER BY n") == [(0,), (1,), (2,)]
    assert server.rows("SELECT rows, commits FROM kigen_commits WHERE target = 'lost'") == [(3, 3)]


def test_a_first_commit_whose_position_is_lost(server: Server) -> None:
    sink = current("first")
    sink.open(None)
    sink.write(changes(("insert", 1, "a", 1), ("insert", 2, "b", 1)))
    sink.commit()
    sink.close()
    again = current("first")
    again.open(None)
    again.write(changes(("insert", 1, "a", 1)))
    again.write(changes(("insert", 2, "b", 1), ("delete", 3, "a", 1)))
    again.commit()
    again.close()
    assert server.rows('SELECT * FROM "first"') == [("b", 1)]


def test_a_new_checkpoint_empties_a_current_table_and_keeps_an_appended_one(server: Server) -> None:
    for run, mode in (("one", "x"), ("two", "y")):
        sink = current("fresh", run)
        sink.open(None)
        sink.write(changes(("insert", 1, mode, 1)))
        sink.commit()
        sink.close()
        appended = sink_of("kept", run=run)
        appended.open(None)
        appended.write(lines([(mode, 1)], KEYED))
        appended.commit()
        appended.close()
    assert server.rows("SELECT * FROM fresh") == [("y", 1)]
    assert server.rows('SELECT "Room" FROM kept ORDER BY 1') == [("x",), ("y",)]


@pytest.mark.parametrize("seed", range(4))
def test_current_with_restarts_at_random(server: Server, seed: int) -> None:
    """Changes in random pieces; the process dies between any two calls, before or after positions are recorded."""
    rng = Random(seed)
    truth: dict[str, int] = {}
    told: list[tuple[str, int, str, int]] = []
    for step in range(400):
        room = rng.choice("abcdefgh")
        if room in truth and rng.random() < 0.4:
            told.append(("delete", step, room, truth.pop(room)))
        else:
            truth[room] = step
            told.append(("insert", step, room, step))
    table, recorded, done = f"random_{seed}", None, 0
    sink = current(table)
    sink.open(None)
    given = 0
    while done < len(told) or given < len(told):
        if given < len(told):
            count = min(rng.randint(1, 60), len(told) - given)
            sink.write(changes(*told[given : given + count]))
            given += count
        if rng.random() < 0.5 or given == len(told):
            position = sink.commit()
            if rng.random() < 0.6 or given == len(told):
                recorded, done = position, given
        if rng.random() < 0.3 and given < len(told):
            sink.close()
            sink = current(table)
            sink.open(recorded)
            given = done
    sink.close()
    assert dict(server.rows(f"SELECT * FROM {table}")) == truth


def test_a_server_that_goes_away_is_waited_for(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    sink = current("away")
    sink.open(None)
    sink.write(changes(("insert", 1, "a", 1)))
    sink.commit()
    server.stop()
    sink.write(changes(("insert", 2, "b", 2), ("delete", 3, "a", 1)))
    done: list[Any] = []
    with caplog.at_level(logging.WARNING, "kigen"):
        waiting = threading.Thread(target=lambda: done.append(sink.commit()))
        waiting.start()
        end = time.monotonic() + 100
        while not caplog.records:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert not done
        server.start()
        waiting.join(120)
    assert done == [{"rows": 3}]
    texts = [record.getMessage() for record in caplog.records]
    assert "query 'q' waits: PostgreSQL is away" in texts[0]
    assert texts[-1] == "query 'q' goes on: PostgreSQL is back"
    sink.close()
    assert server.rows("SELECT * FROM away") == [("b", 2)]


def test_a_wait_ends_with_the_run(server: Server) -> None:
    sink = current("ended")
    sink.open(None)
    sink.write(changes(("insert", 1, "a", 1)))
    server.stop()
    try:
        threading.Timer(0.3, sink.interrupt).start()
        with pytest.raises(Interrupted, match="the run ended while PostgreSQL was away"):
            sink.commit()
    finally:
        server.start()


def test_connections_that_are_cut_while_committing(server: Server) -> None:
    """Somebody cuts every connection again and again: each row is there once."""
    sink = sink_of("cut")
    sink.open(None)
    stop, rng = threading.Event(), random.Random(7)

    def cut() -> None:
        while not stop.wait(rng.uniform(0, 0.2)):
            server.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'kigen'")

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for i in range(60):
            sink.write(lines([("a", i)], KEYED))
            sink.commit()
    finally:
        stop.set()
        cutter.join()
    sink.close()
    assert server.rows("SELECT n FROM cut ORDER BY n") == [(i,) for i in range(60)]


def test_an_existing_table_with_other_columns_is_used(server: Server) -> None:
    server.do("CREATE TABLE mine (\"Room\" varchar PRIMARY KEY, n numeric, note text DEFAULT '-')")
    sink = current("mine")
    sink.open(None)
    sink.write(changes(("insert", 1, "a", 1)))
    sink.commit()
    server.do("UPDATE mine SET note = 'seen'")
    sink.write(changes(("insert", 2, "a", 2)))
    sink.commit()
    sink.close()
    assert server.rows("SELECT * FROM mine") == [("a", 2, "seen")]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('CREATE TABLE bad ("Room" text PRIMARY KEY)', "table bad needs column n bigint; there are: Room"),
        ('CREATE TABLE bad ("Room" text PRIMARY KEY, n text)', "table bad needs column n bigint; it is text"),
        ('CREATE TABLE bad ("Room" text, n bigint)', r"needs a primary key or a unique index on exactly \(Room\)"),
    ],
)
def test_tables_that_do_not_fit(server: Server, table: str, message: str) -> None:
    server.do("DROP TABLE IF EXISTS bad")
    server.do(table)
    with pytest.raises(InputError, match=message):
        current("bad").open(None)


def test_what_no_waiting_mends(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIGEN_TEST_PG", server.url.replace("/postgres", "/nowhere"))
    with pytest.raises(InputError, match='database "nowhere" does not exist'):
        current("t").open(None)
    with pytest.raises(OptionError, match="url_env names the environment variable NOT_SET, which is not set"):
        sink_of("t", url_env="NOT_SET").open(None)
    (tmp_path / "url").write_text(server.url + "\n")
    by_file = open_sink(
        Connector("postgres", (("url_file", "url"), ("table", "by_file"))), KEYED, False, str(tmp_path), "q"
    )
    by_file.open(None)
    by_file.close()
    nul = sink_of("nul")
    monkeypatch.setenv("KIGEN_TEST_PG", server.url)
    nul.open(None)
    nul.write(lines([("\0", 1)], KEYED))
    with pytest.raises(InputError, match="query 'q': PostgreSQL refused: invalid byte sequence"):
        nul.commit()


def test_a_database_that_is_older_than_the_checkpoint(server: Server) -> None:
    with pytest.raises(InputError, match="the checkpoint records 9 rows, and the output has 0"):
        current("older").open({"rows": 9})
    assert server.rows("SELECT to_regclass('older')") == [(None,)]
