"""Tests the functions that an expression may call, with any quotes or schemas around a name, and that DuckDB is
locked."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from kigen.language import CqlErrors
from kigen.lifetimes.expressions.bounded import LARGEST_VALUE
from kigen.lifetimes.expressions.evaluation import EvaluationError, connection, evaluate
from kigen.plan import bind
from kigen.plan.binder.expressions.allowed_functions import AGGREGATES, ALLOWED, OPERATORS
from kigen.plan.binder.expressions.duckdb_types import _connection
from kigen.plan.logical import Expr, Project
from kigen.plan.types import Type

STREAM = "CREATE STREAM s (k STRING, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'x.csv');\n"


def bound(expression: str) -> Expr:
    root = bind(f"{STREAM}CREATE QUERY q AS SELECT {expression} AS r FROM s [NOW];").queries[0].root
    assert isinstance(root, Project)
    return root.exprs[0]


REFUSED = {
    '"random"()': "random",
    '"RANDOM"()': "random",
    "main.random()": "random",
    "system.main.random()": "random",
    "pg_sleep(1)": "pg_sleep",
    '"pg_sleep"(1)': "pg_sleep",
    "pg_catalog.pg_sleep(1)": "pg_sleep",
    "sleep_ms(1000)": "sleep_ms",
    "system.main.repeat(k, 2)": "without a schema",
    "getvariable('x')": "getvariable",
    "current_setting('TimeZone')": "current_setting",
    "current_localtimestamp()": "current_localtimestamp",
    "age(ts)": "reads the clock",
    "version()": "version",
    "gen_random_uuid()::STRING": "gen_random_uuid",
    "nextval('x')": "nextval",
    "write_log('x')": "write_log",
    "range(1000000000)[1]": "range",
    "list_resize([1], 1000000000)[1]": "list_resize",
    "printf('%2000000000d', n)": "small widths",
    "printf(k, n)": "small widths",
    "format('{:{}}', n, n)": "small widths",
    "repeat('x', 2000000000)": "would make a text",
    "bar(n, 0, 10)": "bar",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    with pytest.raises(CqlErrors, match=REFUSED[expression]) as found:
        bound(expression)
    (error,) = found.value.errors
    assert error.line == 2
    assert error.hint
    assert error.underlined.strip('"').lower() in expression.lower()


@pytest.mark.parametrize(
    "word", ["current_date", "current_timestamp", "localtime", "localtimestamp", "current_user", "session_user"]
)
def test_functions_in_disguise(word: str) -> None:
    """DuckDB treats these words as functions where no column has the name."""
    with pytest.raises(CqlErrors) as found:
        bound(f"CAST({word} AS STRING)")
    assert found.value.errors[0].underlined.lower() == word


def test_near_names_are_suggested() -> None:
    with pytest.raises(CqlErrors, match="did you mean levenshtein"):
        bound("levenstein(k, k)")
    with pytest.raises(CqlErrors, match="did you mean string_split"):
        bound("string_splitt(k, ',')[1]")
    with pytest.raises(CqlErrors, match=r"function sleep_ms cannot|a different value"):
        bound("sleep_ms(1)")


@pytest.mark.parametrize(
    "expression",
    [
        "upper(k)",
        '"upper"(k)',
        "n + 1 - 2 * 3 / 4 // 5 % 6 ** 2",
        "k || 'x' LIKE 'a%' AND n BETWEEN 1 AND 3 OR k IN ('a', 'b')",
        "CASE WHEN n > 1 THEN 'a' END",
        "extract(year FROM ts)",
        "date_trunc('hour', ts) + INTERVAL 1 DAY",
        "substring(k FROM 2 FOR 3)",
        "trim(BOTH 'x' FROM k)",
        "position('a' IN k)",
        "k SIMILAR TO 'x.*'",
        "k ILIKE 'a_' ESCAPE '$'",
        "TRY_CAST(k AS BIGINT)",
        "printf('%05d', n)",
        "format('{:>10}', k)",
        "string_split(k, ',')[1]",
        "json_extract_string(k, '$.a')",
        "k -> '$.a'",
        "upper(k -> '$.a' ->> 'b')",
        "coalesce(k -> 'a', '[]')",
        "hex(k) || to_base64(encode(k))",
        "list_concat([n], [1])[1:2]",
        "epoch_us(age(ts, ts))",
        "NULLIF(n, 0)",
        "if(n > 1, 'a', 'b')",
        "repeat(k, 3)",
        "regexp_replace(k, 'a', 'b', 'g')",
    ],
)
def test_allowed(expression: str) -> None:
    bound(expression)


def test_the_list_fits_the_duckdb_that_is_installed() -> None:
    rows = duckdb.connect().execute(
        "SELECT lower(function_name), function_type, coalesce(stability, 'CONSISTENT'), coalesce(has_side_effects, "
        "false) "
        "FROM duckdb_functions()"
    )
    known: dict[str, set[tuple[str, str, bool]]] = {}
    for name, kind, stability, effects in rows.fetchall():
        known.setdefault(name, set()).add((kind, stability, effects))
    for name in ALLOWED - AGGREGATES - OPERATORS:
        found = {entry for entry in known.get(name, set()) if entry[0] in ("scalar", "macro")}
        assert found, f"{name} is not there"
        assert all(stability == "CONSISTENT" and not effects for _, stability, effects in found), name


@pytest.mark.parametrize("which", ["worker", "driver"])
def test_duckdb_is_locked(which: str) -> None:
    with (connection() if which == "worker" else _connection().connection).cursor() as cursor:
        for statement in (
            "SELECT * FROM read_csv('/etc/passwd')",
            "COPY (SELECT 1) TO '/tmp/kigen-test-out.csv'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "ATTACH '/tmp/kigen-test.db'",
            "SET enable_external_access = true",
            "SET TimeZone = 'Asia/Tokyo'",
        ):
            with pytest.raises(duckdb.Error):
                cursor.execute(statement)


def test_time_is_utc_wherever_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    rows = pa.RecordBatch.from_pydict({"c0": pa.array([0], pa.int64())})
    given = evaluate(rows, 1, [Expr("CAST(to_timestamp(c0) AS TIMESTAMP)", Type.TIMESTAMP, "")])[0]
    assert given.cast(pa.int64()).to_pylist() == [0]


@pytest.mark.parametrize(
    "sql",
    [
        "repeat(c0, 2000000000)",
        "lpad(c0, 2000000000, 'x')",
        "rpad(c0, 2000000000, 'x')",
        "replace(c0, 'x', repeat('y', 500000))",
        "regexp_replace(c0, 'x', repeat('y', 500000), 'g')",
    ],
)
def test_a_text_that_is_too_long_is_an_error(sql: str) -> None:
    rows = pa.RecordBatch.from_pydict({"c0": ["x" * 1000, "x"]})
    with pytest.raises(EvaluationError, match=r"would make a text of more than [\d,]+ bytes"):
        evaluate(rows, 2, [Expr(sql, Type.STRING, "")])
    assert evaluate(rows, 2, [Expr("repeat(c0, 2)", Type.STRING, "")])[0].to_pylist()[1] == "xx", (
        "the connection still works"
    )


def test_many_long_texts_are_an_error() -> None:
    rows = pa.RecordBatch.from_pydict({"c0": ["x" * 1000] * 1200})
    with pytest.raises(EvaluationError, match="results of one step"):
        evaluate(rows, 1200, [Expr("repeat(c0, 1000)", Type.STRING, "")])
    assert evaluate(rows, 1200, [Expr("length(c0)", Type.BIGINT, "")])[0].to_pylist()[0] == 1000


def test_a_row_above_64_mib_is_an_error() -> None:
    rows = pa.RecordBatch.from_pydict({"c0": ["x" * (LARGEST_VALUE // 2 + 1)]})
    with pytest.raises(EvaluationError, match="a row holds at most"):
        evaluate(rows, 1, [Expr("c0 || c0", Type.STRING, "")])


@pytest.mark.parametrize("sql", ["c0 + INTERVAL 5000 YEARS", "c0 - INTERVAL 10000 YEARS"])
def test_a_time_beyond_four_digits_is_an_error(sql: str) -> None:
    """Keys of such times were once made from Python's times, which end with the year 9999, and failed with a stack
    trace."""
    rows = pa.RecordBatch.from_pydict({"c0": pa.array([253_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us"))})
    with pytest.raises(EvaluationError, match="after 9999"):
        evaluate(rows, 1, [Expr(sql, Type.TIMESTAMP, "")])


def test_an_error_shows_the_row() -> None:
    columns = pa.RecordBatch.from_arrays([pa.array([1, 3])], names=["c0"])
    with pytest.raises(EvaluationError) as found:
        evaluate(columns, 2, [Expr("7 // (c0 - 3)", Type.BIGINT, "7 // (n - 3)")])
    assert str(found.value).endswith("on the row with c0 = 3")
    assert "SET " not in str(found.value)
