"""Tests that random apps written in CQL give plans that mean the same as plans built without CQL."""

from __future__ import annotations

import duckdb
import pytest
from oracle.as_plan import plan_of
from oracle.generate import generate
from oracle.render_cql import app_text
from oracle.shapes import App
from test_meaning import bag, written

from kigen.plan import bind


def tables(app: App) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for stream in bind(app_text(app)).streams:
        columns = ", ".join(f'"{c.name}" {c.type.duckdb}' for c in stream.schema)
        connection.execute(f"CREATE TABLE {stream.name} ({columns})")
        for row in range(12):
            values = ", ".join(
                f"CAST({(row * 7 + i * 3) % 5} AS {c.type.duckdb})"
                if c.type.duckdb != "TIMESTAMP"
                else f"make_timestamp({(row * 7 + i * 3) % 5 * 1000})"
                for i, c in enumerate(stream.schema)
            )
            connection.execute(f"INSERT INTO {stream.name} VALUES ({values})")
    return connection


@pytest.mark.parametrize("seed", range(3000, 3040))
def test_the_binder_agrees(seed: int) -> None:
    app = generate(seed)
    duck = tables(app)
    for expected, got in zip(plan_of(app).queries, bind(app_text(app)).queries, strict=True):
        assert got.name == expected.name
        assert [c.type for c in got.schema] == [c.type for c in expected.schema]
        assert bag(duck.execute(written(got.root)).fetchall()) == bag(duck.execute(written(expected.root)).fetchall())
