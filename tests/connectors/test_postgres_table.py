"""CREATE TABLE ... FROM postgres on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from kigen_lab.servers.postgres_server import PostgresServer as Server

from kigen.connectors import InputError
from kigen.connectors.registry import open_source, table_reader
from kigen.connectors.table.versions import KeptTable, TableVersions
from kigen.plan.binder import bind
from kigen.plan.logical import SourceStream

pytestmark = pytest.mark.timeout(400)
COLUMNS = '"Room" STRING, floor BIGINT, width DOUBLE, warm BOOLEAN, since TIMESTAMP'


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    started.start()
    yield started
    started.remove()


def declared(columns: str = COLUMNS, clauses: str = "", table: str = "rooms") -> SourceStream:
    return bind(
        f"CREATE TABLE t ({columns}) FROM postgres (url_env = 'PG_URL', table = '{table}') {clauses};"
        "CREATE STREAM s (x BIGINT) FROM synthetic (rate = 1); CREATE QUERY q AS SELECT x FROM s [NOW], t;"
    ).stream("t")


def test_rows_of_a_server_and_its_refreshes(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URL", server.url)
    server.do(
        'CREATE TABLE rooms ("Room" varchar(9), floor integer, width numeric(6,2), warm boolean, since timestamptz, x int)'
    )
    server.do("INSERT INTO rooms VALUES ('a', 1, 2.5, true, '2026-01-01 01:00:00+01', 1)")
    server.do("INSERT INTO rooms DEFAULT VALUES")
    stream = declared(clauses="REFRESH EVERY 1 SECONDS")
    source = open_source(stream, ".", False, None, str(tmp_path))
    found = source.read(source.advance(source.initial(), 10)).table.select(range(5)).to_pylist()
    assert found[0] == {"c0": "a", "c1": 1, "c2": 2.5, "c3": True, "c4": datetime(2026, 1, 1)}
    assert set(found[1].values()) == {None}
    server.do("UPDATE rooms SET floor = 2 WHERE floor = 1")
    table = KeptTable(TableVersions(tmp_path, "t", stream.schema), stream)
    read = table_reader(stream, ".")
    assert table.refresh(read())
    assert not table.refresh(read())
    assert sorted(table.now.rows.column("c1").to_pylist(), key=str) == [2, None]
    server.stop()
    server.start()  # another connection
    assert not table.refresh(read())


@pytest.mark.parametrize(
    ("columns", "table", "message"),
    [
        ("floor STRING", "rooms", "table 't': column floor is STRING, PostgreSQL gives int"),
        ("storey BIGINT", "rooms", 'PostgreSQL refused: column "storey" does not exist'),
        ("floor BIGINT", "houses", 'PostgreSQL refused: relation "houses" does not exist'),
    ],
)
def test_what_does_not_fit_is_named(
    server: Server, monkeypatch: pytest.MonkeyPatch, columns: str, table: str, message: str
) -> None:
    monkeypatch.setenv("PG_URL", server.url)
    with pytest.raises(InputError) as found:
        table_reader(declared(columns, table=table), ".")()
    assert message in str(found.value)
