"""Random rows of all types, and what DuckDB answers over the rows that are alive at an instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID

import duckdb

from kigen.testing import AppTest

COLUMNS = {
    "k": "STRING",
    "n": "BIGINT",
    "m": "DECIMAL(9, 2)",
    "w": "DECIMAL(38, 10)",
    "d": "DATE",
    "t": "TIME",
    "u": "UUID",
    "b": "BLOB",
    "ts": "TIMESTAMP",
}
Row = dict[str, Any]
_UUIDS = [UUID(int=i * 0x1234567890ABCDEF1234567890ABCDEF % 2**128) for i in range(1, 6)]
_START = datetime(2026, 1, 1, tzinfo=UTC)
_VALUES: dict[str, Any] = {
    "STRING": lambda draw: draw.choice(["a", "b", "c", ""]),
    "BIGINT": lambda draw: draw.choice([-3, 0, 1, 2, 7]),
    "DECIMAL(9, 2)": lambda draw: Decimal(draw.randint(-9_999_999, 99_999_999) if draw.random() < 0.3 else draw.randint(-3, 5)).scaleb(-2),
    "DECIMAL(38, 10)": lambda draw: Decimal(draw.choice([-1, 1]) * draw.choice([0, 1, 5, 10**10, 10**27 + 1, 7 * 10**35])).scaleb(-10),
    "DATE": lambda draw: draw.choice([date(2026, 1, 31), date(2024, 2, 29), date(1969, 12, 31), date(1, 1, 1)]),
    "TIME": lambda draw: draw.choice([time(0, 0), time(23, 59, 59, 999999), time(12, 30, 0, 5)]),
    "UUID": lambda draw: draw.choice(_UUIDS),
    "BLOB": lambda draw: draw.choice([b"", b"\x00\xff", b"abc", b"\xf0\x9f"]),
    "BIGINT[]": lambda draw: draw.choice([[], [1], [2, None], [3, 1], [1, 3]]),
    "STRUCT(x BIGINT, y STRING)": lambda draw: {"x": draw.choice([None, 0, 1]), "y": draw.choice(["a", "b", None])},
    "JSON": lambda draw: draw.choice(['{"a": "q", "b": [1, 2]}', '{"b": []}', "{}"]),
}  # fmt: skip


def random_rows(draw: Random, count: int, columns: dict[str, str] = COLUMNS, nulls: float = 0.15) -> list[Row]:
    """Returns rows in the order of their times; several may have one time."""
    rows, at = [], _START
    for _ in range(count):
        at += timedelta(seconds=draw.choice([0, 1, 1, 2, 5]))
        row = {c: None if draw.random() < nulls else _VALUES[kind](draw) for c, kind in columns.items() if c != "ts"}
        rows.append(row | {"ts": at})
    return rows


def app_text(queries: dict[str, str], columns: dict[str, str] = COLUMNS) -> str:
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    text = f"CREATE STREAM s ({declared}) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"
    return text + "".join(f"CREATE QUERY {name} AS {body};\n" for name, body in queries.items())


def lines_of(text: str, rows: list[Row], lifetime: str, cuts: Sequence[int] = ()) -> dict[str, list[Row]]:
    """Returns the lines of all queries. The rows come in blocks that end at the cuts."""
    test = AppTest(text=text, lifetime=lifetime)
    places = [0, *cuts, len(rows)]
    for first, end in pairwise(places):
        test.push("s", rows[first:end])
        if end < len(rows):
            test.advance(rows[end]["ts"])
    test.finish()
    return {name: test.lines(name) for name in test._lines}


class Alive:
    """The table `s` in DuckDB: the rows of a window that are alive at an instant."""

    def __init__(self, rows: list[Row], seconds: int, columns: dict[str, str] = COLUMNS) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.known: dict[tuple[str, datetime], Counter[Any]] = {}
        self.connection.execute("SET TimeZone = 'UTC'")
        kinds = ", ".join(f"{name} {'VARCHAR' if kind == 'STRING' else kind}" for name, kind in columns.items())
        self.connection.execute(f"CREATE TABLE kept ({kinds}, _from TIMESTAMP, _to TIMESTAMP, _row BIGINT)")
        marks = ", ".join("?" for _ in range(len(columns) + 3))
        for number, row in enumerate(rows):
            at = row["ts"].replace(tzinfo=None)
            values = [row[c] if c != "ts" else at for c in columns]
            self.connection.execute(
                f"INSERT INTO kept VALUES ({marks})", [*values, at, at + timedelta(seconds=seconds), number]
            )
        self.connection.execute(
            f"CREATE VIEW s AS SELECT {', '.join(columns)} FROM kept"
            " WHERE _from <= getvariable('now') AND getvariable('now') < _to ORDER BY _row"
        )

    def answer(self, sql: str, now: datetime) -> Counter[Any]:
        if (sql, now) not in self.known:
            self.connection.execute(f"SET VARIABLE now = TIMESTAMP '{now.replace(tzinfo=None)}'")
            self.known[sql, now] = bag(self.connection.execute(sql).fetchall())
        return self.known[sql, now]


def check_at_every_instant(name: str, body: str, lines: list[Row], rows: list[Row], alive: Alive, window: str) -> None:
    """Compares the lines of a query with DuckDB's answers at each instant at which a tuple is born or dies."""
    sql = body.replace(f" {window}", "")
    seconds = int(window.split()[1])
    last = rows[-1]["ts"]
    moments = {row["ts"] for row in rows} | {row["ts"] + timedelta(seconds=seconds) for row in rows}
    for now in sorted(m for m in moments if m <= last):
        empty = not any(row["ts"] <= now < row["ts"] + timedelta(seconds=seconds) for row in rows)
        wanted = Counter[Any]() if empty else alive.answer(sql, now)  # a global aggregate over nothing has no row
        found = [
            tuple(v for c, v in line.items() if c not in ("_from", "_to"))
            for line in lines
            if line["_from"] <= now and (line["_to"] is None or now < line["_to"])
        ]
        assert bag(found) == wanted, f"{name} at {now}: {body}\nfound  {bag(found)}\nwanted {wanted}"


def over_query(draw: Random, source: str, values: list[str], keys: list[str], ties: str) -> str:
    """Draws functions with OVER; `ties` completes their order, so that DuckDB has one answer."""
    part = draw.choice(["", f"PARTITION BY {draw.choice(keys)} "])
    order = f"ORDER BY {draw.choice(values)} {draw.choice(['', 'DESC', 'NULLS FIRST'])}"
    moved = draw.choice(["LAG", "LEAD"])
    calls = [f"{moved}({draw.choice(values)}) OVER ({part}{order}, {ties})",
             f"{moved}({key}, 2, {key}) OVER ({part}{order}, {ties})" if (key := draw.choice(keys)) else "",
             f"ROW_NUMBER() OVER ({part}{order}, {ties})", f"RANK() OVER ({part}{order})",
             f"DENSE_RANK() OVER ({part}{order})"]  # fmt: skip
    chosen = draw.sample(calls, 2)
    qualify = draw.choice(["", f" QUALIFY {calls[3]} <= 2"])
    return f"SELECT k, {chosen[0]} AS c1, {chosen[1]} AS c2 FROM {source}{qualify}"


def bag(rows: Sequence[tuple[Any, ...]]) -> Counter[Any]:
    return Counter(tuple(plain(value) for value in row) for row in rows)


def plain(value: Any) -> Any:
    """Returns a value that can be compared: doubles to nine digits, times without a zone, UUIDs as text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else f"{value + 0.0:.9g}"
    if isinstance(value, Decimal):
        return ("decimal", str(value + 0))
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return ("struct", *((k, plain(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("list", *(plain(v) for v in value))
    return value
