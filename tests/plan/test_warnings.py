"""Tests what `check` warns about: joins that form all pairs and windows that never end, and nothing else."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app as command
from kigen.language.errors import CqlWarning
from kigen.plan import bind

STREAMS = """CREATE STREAM a (k BIGINT, x DOUBLE, t TIMESTAMP, f BOOLEAN) FROM synthetic (rate = 500);
CREATE STREAM b (k BIGINT, y DOUBLE, u TIMESTAMP) TIMESTAMP BY u FROM csv (path = 'b.csv');
"""


def warned(*bodies: str) -> tuple[CqlWarning, ...]:
    return bind(STREAMS + "\n".join(f"CREATE QUERY q{i} AS {body};" for i, body in enumerate(bodies))).warnings


CROSSES = {
    "SELECT a.k FROM a [RANGE 10 SECONDS], b [ROWS 7]": "cross product: each tuple of a meets up to 7 rows, "
    "each tuple of b meets about 5,000 rows",
    "SELECT a.k FROM a [ROWS 3], b [RANGE 10 SECONDS]": "each tuple of a meets all rows alive on the other side "
    "(range 10 s)",
    "SELECT a.k FROM a [ROWS 3], b [ROWS 9] WHERE a.x <> b.y": "cross product: each tuple of a meets up to 9 rows, "
    "each tuple of b meets "
    "up to 3 rows; only then is its condition tested",
    "SELECT a.k FROM a [ROWS 3], b [ROWS 9] WHERE a.x < b.y": "no equality, only an inequality: each tuple of a "
    "meets up to 9 rows",
    "SELECT a.k FROM a [ROWS 3] JOIN b [UNBOUNDED] ON u BETWEEN t AND t + INTERVAL 1 SECOND": "every earlier row of "
    "the other side",
    "SELECT a.k FROM a [NOW], b [NOW]": "all rows of the other side at the same instant",
    "SELECT p.k FROM a [ROWS 3] p, a [ROWS 3] q WHERE p.x < q.x": "each tuple of a meets up to 3 rows, as far as the "
    "inequality allows",
}


@pytest.mark.parametrize("body", CROSSES)
def test_a_join_without_an_equality(body: str) -> None:
    warning = warned(body)[0]
    assert CROSSES[body] in warning.message
    assert warning.underlined in ("b", "a")
    assert "x.k = y.k" in (warning.hint or "")


NO_CROSS = [
    "SELECT a.k FROM a [ROWS 3], b [ROWS 9] WHERE a.k = b.k AND a.x < b.y",
    "SELECT a.k FROM a [ROWS 3], b [ROWS 9] WHERE a.k % 5 = b.k",
    # the condition outside became a key
    "SELECT * FROM (SELECT a.k, b.k AS l FROM a [ROWS 3], b [ROWS 9]) WHERE k = l",
    "SELECT a.k FROM a [ROWS 3], (SELECT MAX(y) AS top FROM b [ROWS 9]) WHERE x >= top",  # one row multiplies nothing
    "SELECT a.k FROM a [RANGE 3 SECONDS], b [ROWS 1]",
    "SELECT p.k FROM a [ROWS 3] p, b [ROWS 3], a [ROWS 3] q WHERE p.k = q.k AND q.x = b.y",
]


@pytest.mark.parametrize("body", NO_CROSS)
def test_no_warning_of_a_join(body: str) -> None:
    assert warned(body) == ()


ENDLESS = {
    "SELECT a.k FROM a [NOW], b [UNBOUNDED] WHERE a.k = b.k": "a join keeps every tuple of b for ever",
    "SELECT a.k FROM a [NOW], (SELECT k FROM b [UNBOUNDED] WHERE y > 1) s WHERE a.k = s.k": "a join keeps every "
    "tuple of b for ever",
    "SELECT k, COUNT(*) FROM b [UNBOUNDED] GROUP BY k": "GROUP BY keeps a group for every value of k that b ever had",
    "SELECT DISTINCT y FROM b [UNBOUNDED]": "DISTINCT keeps every different row of b for ever",
    "SELECT k FROM a [NOW] EXCEPT SELECT k FROM b [UNBOUNDED]": "EXCEPT keeps every different row of b for ever",
}


@pytest.mark.parametrize("body", ENDLESS)
def test_a_window_that_never_ends(body: str) -> None:
    (warning,) = warned(body)
    assert ENDLESS[body] in warning.message
    assert warning.underlined == "[UNBOUNDED]"
    assert "RANGE" in (warning.hint or "")


@pytest.mark.parametrize(
    "body",
    [
        "SELECT k FROM b [UNBOUNDED]",  # nothing keeps it
        "SELECT COUNT(*), MAX(y) FROM b [UNBOUNDED]",  # one row of state
        "SELECT f, COUNT(*) FROM a [UNBOUNDED] GROUP BY f",  # at most three groups
        "SELECT k, COUNT(*) FROM b [RANGE 1 HOUR] GROUP BY k",
    ],
)
def test_no_warning_of_a_window(body: str) -> None:
    assert warned(body) == ()


def test_an_equal_window_is_one_warning_that_names_the_other_lines() -> None:
    body = "SELECT a.k FROM a [NOW], b [UNBOUNDED] WHERE a.k = b.k"
    (warning,) = warned(body, body.replace("a.k FROM", "b.y FROM"), "SELECT k FROM b [UNBOUNDED] GROUP BY k")
    assert (warning.line, "lines 4, 5" in warning.message) == (3, True)


def test_warnings_come_in_the_order_of_the_text_and_survive_pickling() -> None:
    found = warned("SELECT DISTINCT k FROM b [UNBOUNDED]", "SELECT a.k FROM a [ROWS 3], b [ROWS 9]")
    assert [w.line for w in found] == [3, 4]
    again = pickle.loads(pickle.dumps(found[1]))
    assert again.render() == found[1].render()
    assert again.render().startswith("warning: <app>:4:")


def test_check_shows_warnings_and_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "app.cql"
    path.write_text(STREAMS + "CREATE QUERY q AS SELECT a.k FROM a [ROWS 3], b [ROWS 9];\n", encoding="utf-8")
    done = CliRunner().invoke(command, ["check", str(path)])
    assert done.exit_code == 0
    assert done.stdout == f"{path}: 2 streams, 1 query, no errors, 1 warning\n"
    assert done.stderr.startswith(f"warning: {path}:3:47: this join is a cross product")
    assert "^" in done.stderr
    assert "hint: join on an equality" in done.stderr


STREAM = "CREATE STREAM s (a BIGINT) FROM synthetic (rate = 500);\n"


def test_a_deadline_shorter_than_two_rounds_is_named() -> None:
    app = bind(STREAM + "CREATE QUERY q DEADLINE 5 MILLISECONDS AS SELECT a FROM s [NOW];")
    (warning,) = app.warnings
    assert (warning.line, warning.column) == (2, 14)
    assert (
        "a deadline of 5 ms, but a tuple may wait for one round and then for its own, 10 ms in all" in warning.message
    )
    assert warning.hint == "write DEADLINE 10 MILLISECONDS or more"


def test_work_that_exceeds_a_core_is_named() -> None:
    app = bind(STREAM + "CREATE QUERY q DEADLINE 1 SECONDS COST 3000 MICROSECONDS AS SELECT a FROM s [NOW];")
    (warning,) = app.warnings
    assert "needs 1.5 cores (500 tuples per second with COST 3000 MICROSECONDS)" in warning.message


def test_a_deadline_that_holds_gives_no_warning() -> None:
    app = bind(STREAM + "CREATE QUERY q DEADLINE 100 MILLISECONDS COST 1000 MICROSECONDS AS SELECT a FROM s [NOW];")
    assert app.warnings == ()
