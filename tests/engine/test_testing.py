"""Tests of `kigen.testing`: its own example, the page about it, streams and tables, and what it refuses."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kigen
import kigen.testing.apps
from kigen.testing import AppTest, lifetimes

STREAM = "CREATE STREAM s (k STRING, v BIGINT) FROM synthetic (rate = 1) LATENESS 5 MICROSECONDS;\n"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-an-app.md"


def test_the_example() -> None:
    assert doctest.testmod(kigen.testing.apps).failed == 0


def test_the_page() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    names["test_a_room_is_hot_for_ten_seconds"]()  # type: ignore[operator]


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
def test_rows_in_lines_out(lifetime: str) -> None:
    test = AppTest(
        text=STREAM + "CREATE QUERY q AS SELECT k, SUM(v) AS n FROM s [ROWS 2] GROUP BY k;", lifetime=lifetime
    )
    test.push("s", [{"k": "a", "v": 1, "_at": 10}, {"k": "a", "v": 2, "_at": 20}])
    test.advance(30)
    assert [(row["n"], row["_from"].microsecond) for row in test.lines("q")] == [(1, 10)]
    assert test.at("q", 25) == [{"k": "a", "n": 3}]
    test.push("s", [{"k": "b", "v": 5, "_at": 40}, {"k": "b", "v": 5, "_at": 1}])
    test.finish()
    assert [(row["k"], row["n"], row["_to"] and row["_to"].microsecond) for row in test.lines("Q")] == [
        ("a", 1, 20),
        ("a", 3, 40),
        ("a", 2, None),
        ("b", 5, None),
    ]
    assert test.late("q") == 1


def test_streams_and_tables() -> None:
    text = (
        STREAM
        + "CREATE TABLE names (k STRING, name STRING) FROM csv (path = 'names.csv');\n"
        + "CREATE QUERY q AS ISTREAM(SELECT name, v FROM s [NOW] JOIN names ON s.k = names.k);"
    )
    rows = {"s": [{"k": "a", "v": 1, "_at": 10}, {"k": "x", "v": 2, "_at": 20}], "names": [("a", "Ada")]}
    (line,) = lifetimes(text=text, rows=rows)["q"]
    assert (line["name"], line["v"], line["_at"].microsecond) == ("Ada", 1, 10)


def test_what_is_refused() -> None:
    test = AppTest(text=STREAM + "CREATE QUERY q AS SELECT k FROM s [NOW];")
    for call, message in (
        (lambda: test.push("t", []), "the app has no t"),
        (lambda: test.push("s", [{"k": "a"}]), "needs its time in _at"),
        (lambda: test.push("s", [{"kk": "a", "_at": 1}]), "no column kk"),
        (lambda: test.push("s", [(1, 2, 3)]), "has 2 columns"),
        (lambda: test.lines("r"), "the app has no r"),
    ):
        with pytest.raises(kigen.ArgumentError, match=message):
            call()
    test.push("s", [{"k": 7, "v": 1, "_at": 1}])
    with pytest.raises(kigen.ArgumentError, match="column k of s is STRING"):
        test.finish()


def test_it_does_not_import_spark() -> None:
    code = "import sys, kigen.testing; assert not any(m.startswith('pyspark') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
