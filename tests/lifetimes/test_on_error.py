"""`ON ERROR FAIL | SKIP | INTO` on queries: the rows on which an expression fails are left out, and no others."""

from __future__ import annotations

import random

import pytest

from kigen.language import CqlErrors
from kigen.lifetimes import EvaluationError
from kigen.plan.binder import bind
from kigen.testing import AppTest

STREAMS = """
CREATE STREAM s (k BIGINT, w STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE STREAM t (k BIGINT, w STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 't.csv');
"""
# Bodies that fail on some rows, each with one that says the same without failing.
PAIRS = {
    "project": ("SELECT k, CAST(w AS BIGINT) AS n FROM s [ROWS 3]",
                "SELECT k, TRY_CAST(w AS BIGINT) AS n FROM s [ROWS 3] WHERE w IS NULL OR TRY_CAST(w AS BIGINT) IS NOT NULL"),
    "filter": ("SELECT k FROM s [RANGE 5 SECONDS] WHERE CAST(w AS BIGINT) > 1",
               "SELECT k FROM s [RANGE 5 SECONDS] WHERE TRY_CAST(w AS BIGINT) > 1"),
    "aggregate": ("SELECT k, SUM(CAST(w AS BIGINT)) AS n, COUNT(*) AS c FROM s [RANGE 5 SECONDS] GROUP BY k",
                  "SELECT k, SUM(TRY_CAST(w AS BIGINT)) AS n, COUNT(*) AS c FROM s [RANGE 5 SECONDS] "
                  "WHERE w IS NULL OR TRY_CAST(w AS BIGINT) IS NOT NULL GROUP BY k"),
    "join": ("SELECT s.k, t.k AS l FROM s [ROWS 4], t [ROWS 4] WHERE s.k = t.k AND CAST(s.w AS BIGINT) + CAST(t.w AS BIGINT) > 3",
             "SELECT s.k, t.k AS l FROM s [ROWS 4], t [ROWS 4] WHERE s.k = t.k AND TRY_CAST(s.w AS BIGINT) + TRY_CAST(t.w AS BIGINT) > 3"),
    "left join": ("SELECT s.k, t.k AS l FROM s [ROWS 4] LEFT JOIN t [ROWS 4] ON s.k = t.k AND CAST(s.w AS BIGINT) <= CAST(t.w AS BIGINT)",
                  "SELECT s.k, t.k AS l FROM s [ROWS 4] LEFT JOIN t [ROWS 4] ON s.k = t.k AND TRY_CAST(s.w AS BIGINT) <= TRY_CAST(t.w AS BIGINT)"),
    "full join": ("SELECT s.k, t.k AS l FROM s [ROWS 4] FULL JOIN t [ROWS 4] ON CAST(s.w AS BIGINT) = CAST(t.w AS BIGINT)",
                  "SELECT s.k, t.k AS l FROM s [ROWS 4] FULL JOIN t [ROWS 4] ON TRY_CAST(s.w AS BIGINT) = TRY_CAST(t.w AS BIGINT)"),
    "exists": ("SELECT k FROM s [ROWS 4] WHERE EXISTS (SELECT 1 FROM t [ROWS 2] WHERE t.k = s.k AND CAST(t.w AS BIGINT) > 1)",
               "SELECT k FROM s [ROWS 4] WHERE EXISTS (SELECT 1 FROM t [ROWS 2] WHERE t.k = s.k AND TRY_CAST(t.w AS BIGINT) > 1)"),
    "pushed": ("SELECT n FROM (SELECT k * 4611686018427387904 AS n FROM s [ROWS 3]) WHERE n >= 0",
               "SELECT k * 4611686018427387904 AS n FROM s [ROWS 3] WHERE k < 2"),
    "having": ("SELECT k, MAX(w) AS m FROM s [ROWS 5] GROUP BY k HAVING CAST(MAX(w) AS BIGINT) > 0",
               "SELECT k, MAX(w) AS m FROM s [ROWS 5] GROUP BY k HAVING TRY_CAST(MAX(w) AS BIGINT) > 0"),
    "sum": ("SELECT k, SUM(6000000000000000000) AS n FROM s [ROWS 4] GROUP BY k",
            "SELECT k, 6000000000000000000 AS n FROM s [ROWS 4] GROUP BY k HAVING COUNT(*) = 1"),
    "time": ("SELECT k, CAST(w || '000-01-01' AS TIMESTAMP) AS x FROM s [ROWS 3]",
             "SELECT k, CAST(w || '000-01-01' AS TIMESTAMP) AS x FROM s [ROWS 3] WHERE w IS NULL OR w IN ('1', '2', '3', '7')"),
    "twice": ("SELECT CAST(w AS BIGINT) + CAST(w AS BIGINT) AS x, CAST(w AS BIGINT) - 1 AS y FROM s [ROWS 3]",
              "SELECT n + n AS x, n - 1 AS y FROM (SELECT TRY_CAST(w AS BIGINT) AS n, w FROM s [ROWS 3]) WHERE w IS NULL OR n IS NOT NULL"),
}  # fmt: skip


def rows(seed: int) -> list[tuple[str, tuple[int, str | None, int]]]:
    chosen = random.Random(seed)
    words = ["1", "2", "3", "x", "", None, "9223372036854775808", "7"]
    return [(chosen.choice("st"), (chosen.randrange(4), chosen.choice(words), at * 1_000_000)) for at in range(60)]


def lines(text: str, mode: str, seed: int, step: int, names: tuple[str, ...]) -> list[list[str]]:
    test = AppTest(text=text, lifetime=mode)
    for at, (stream, row) in enumerate(rows(seed)):
        test.push(stream, [row])
        if at % step == step - 1:
            test.at(names[0], row[2])
    test.finish()
    return [sorted(map(repr, test.lines(name))) for name in names]


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("what", PAIRS)
def test_rows_that_fail_are_left_out(what: str, mode: str) -> None:
    failing, expected = PAIRS[what]
    for seed, step in ((1, 60), (2, 7)):
        text = f"{STREAMS} CREATE QUERY q ON ERROR SKIP AS {failing}; CREATE QUERY e AS {expected};"
        found, wanted = lines(text, mode, seed, step, ("q", "e"))
        assert found == wanted
        assert wanted
    if what not in ("sum", "pushed", "time"):
        with pytest.raises(EvaluationError, match="Could not convert"):
            lines(f"{STREAMS} CREATE QUERY q ON ERROR FAIL AS {failing};", mode, 1, 60, ("q",))


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_into_gives_each_row_that_failed_once(mode: str) -> None:
    text = f"""{STREAMS}
    CREATE QUERY q ON ERROR INTO csv (path = 'bad.csv') AS
      SELECT k, CAST(w AS BIGINT) AS n, CAST(w AS DOUBLE) AS d FROM s [ROWS 3] WHERE k <> 3 AND 6 // (k - 1) < 9;
    CREATE QUERY good AS SELECT k, TRY_CAST(w AS BIGINT) AS n FROM s [ROWS 3] WHERE k IN (0, 2);
    CREATE QUERY reader AS SELECT COUNT(*) AS n FROM q;
    """
    test = AppTest(text=text, lifetime=mode)
    test.push("s", [(0, "5", 0), (1, "5", 1), (2, "five", 2), (3, "six", 3), (2, "9223372036854775808", 4)])
    test.finish()
    assert [row["n"] for row in test.lines("q")] == [5]
    assert {row["_row"].split(", ts")[0]: row["_reason"] for row in test.lines("q_errors")} == {
        "k = 1, w = 5": "6 // (k - 1) < 9 failed",
        "k = 2, w = five": "CAST(w AS BIGINT) failed",
        "k = 2, w = 9223372036854775808": "CAST(w AS BIGINT) failed",
    }
    assert {row["_place"] for row in test.lines("q_errors")} == {"query q"}
    assert [row["n"] for row in test.lines("reader")] == [1, 0]


def test_a_query_that_reads_another_keeps_its_own_word() -> None:
    text = f"""{STREAMS}
    CREATE QUERY low ON ERROR SKIP AS SELECT k, CAST(w AS BIGINT) AS n FROM s [ROWS 3];
    CREATE QUERY high AS SELECT 10 // n AS m FROM low WHERE n >= 0;
    """
    test = AppTest(text=text)
    test.push("s", [(0, "x", 0), (0, "5", 1)])
    test.finish()
    assert [row["m"] for row in test.lines("high")] == [2]


def test_on_error_may_stand_after_into_too() -> None:
    app = bind(
        f"{STREAMS} CREATE QUERY q AS SELECT k FROM s [NOW] INTO csv (path = 'a.csv') ON ERROR INTO csv (path = 'b');"
    )
    assert [(q.name, q.into and q.into.option("path")) for q in app.queries] == [("q", "a.csv"), ("q_errors", "b")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE QUERY q ON ERROR AS SELECT k FROM s [NOW];", "expected FAIL, SKIP or INTO"),
        ("CREATE QUERY q ON ERROR SKIP ON ERROR FAIL AS SELECT k FROM s [NOW];", "ON ERROR is given twice"),
        (
            "CREATE QUERY q ON ERROR SKIP AS SELECT k FROM s [NOW] INTO csv (path = 'o') ON ERROR SKIP;",
            "ON ERROR is given twice",
        ),
        (
            "CREATE QUERY q_errors AS SELECT k FROM s [NOW];"
            "CREATE QUERY q ON ERROR INTO csv (path = 'o') AS SELECT k FROM s [NOW];",
            "ON ERROR INTO makes a query q_errors",
        ),
        (
            "CREATE QUERY q ON ERROR INTO csv (path = 'o') AS SELECT k FROM s [NOW] INTO csv (path = 'o');",
            "o",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(CqlErrors, match=message):
        bind(STREAMS + text)
