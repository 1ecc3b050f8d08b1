"""Changes of a running app, without Spark: the texts that they make, and what may come from outside."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kigen.engine.apps import read_app
from kigen.engine.changes.allowed import Allowed, NotAllowed
from kigen.engine.changes.edits import with_statements, without_queries
from kigen.engine.changes.live import AppChange, LiveChanges
from kigen.engine.errors import ArgumentError
from kigen.engine.options import RunOptions
from kigen.language import CqlErrors
from kigen.plan.logical import App

APP = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'data/s.csv');
CREATE QUERY one AS SELECT a FROM s [ROWS 1];
CREATE QUERY two AS SELECT a FROM one INTO csv (path = 'out/two.csv');
"""


class Running:
    """A stand-in for a run: keeps what it was asked to become."""

    def __init__(self, folder: Path, *allow: str) -> None:
        self.app = read_app(text=APP, base=folder)
        self.options = RunOptions(allow=allow)
        self.asked: list[App] = []

    def change_to(self, declared: App, replay_us: int | None = None, plan: bool = False) -> AppChange:
        self.asked.append(declared)
        self.app = declared
        return AppChange(not plan, [], [], 0.0, "")

    def save(self, to: str | Path) -> dict[str, Any]:
        return {"to": str(to)}


def changes(folder: Path, *allow: str) -> tuple[Running, LiveChanges]:
    running = Running(folder, *allow)
    return running, LiveChanges(running, read_app)


def read(folder: Path):  # type: ignore[no-untyped-def]
    return lambda text, file: read_app(text=text, base=folder)


def test_added_statements_may_read_what_runs_and_come_last(tmp_path: Path) -> None:
    running, live = changes(tmp_path)
    live.add("CREATE STREAM t (b BIGINT) FROM synthetic (rate = 1);")
    live.add("CREATE QUERY three AS SELECT b FROM t [NOW]")
    live.add("CREATE QUERY four AS SELECT a FROM one;\nCREATE QUERY five AS SELECT a + $k AS k FROM four", {"k": 7})
    assert [q.name for q in running.app.queries] == ["one", "two", "three", "four", "five"]
    assert "a + 7" in running.app.text


def test_errors_in_added_statements_have_their_own_lines(tmp_path: Path) -> None:
    _, live = changes(tmp_path)
    with pytest.raises(CqlErrors) as caught:
        live.add("-- two\nCREATE QUERY three AS SELECT b FROM s [NOW];")
    error = caught.value.errors[0]
    assert (error.line, error.column, error.underlined, error.message) == (2, 30, "b", "unknown column b")
    with pytest.raises(CqlErrors) as caught:
        live.add("\nCREATE QUERY One AS SELECT a FROM s [NOW];")
    error = caught.value.errors[0]
    assert (error.line, error.column, error.underlined) == (2, 14, "One")
    assert error.message == "one is already declared"
    with pytest.raises(ArgumentError, match="no statement to add"):
        live.add("-- nothing")


def test_queries_are_dropped_with_what_reads_them_or_not_at_all(tmp_path: Path) -> None:
    app = read_app(text=APP, base=tmp_path)
    assert [q.name for q in without_queries(app, ["TWO"], read(tmp_path)).queries] == ["one"]
    with pytest.raises(ArgumentError, match="without one the rest of the app has errors: drop what reads it, too"):
        without_queries(app, ["one"], read(tmp_path))
    with pytest.raises(ArgumentError, match="no query 'tow': did you mean two"):
        without_queries(app, ["tow"], read(tmp_path))
    with pytest.raises(ArgumentError, match="at least one query"):
        without_queries(app, ["one", "two"], read(tmp_path))


def test_a_text_without_its_app_cannot_be_added_to(tmp_path: Path) -> None:
    running, live = changes(tmp_path)
    running.app = replace(running.app, text="")
    with pytest.raises(ArgumentError, match="no text to change"):
        live.add("CREATE QUERY three AS SELECT a FROM s [NOW];")
    with pytest.raises(ArgumentError, match="cannot be changed"):
        LiveChanges(running, None).change(text=APP)


OUTSIDE = {
    "INCLUDE '/etc/passwd';": "INCLUDE reads a file here",
    "CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'os:system';": "function os:system was not allowed",
    "CREATE STREAM t (b STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = '/etc/passwd');": "path '/etc/passwd'",
    "CREATE TABLE t (b STRING) FROM csv (path = '../t.csv');": "path '../t.csv' was not allowed",
    "CREATE QUERY q AS SELECT a FROM s [NOW] INTO csv (path = 'data/s2.csv');": "path 'data/s2.csv' was not allowed",
    "CREATE QUERY q AS SELECT a FROM s [NOW] ON ERROR INTO csv (path = 'e.csv');": "",
    "CREATE QUERY q ON ERROR INTO csv (path = 'e.csv') AS SELECT a FROM s [NOW];": "path 'e.csv' was not allowed",
    "CREATE STREAM t (b BIGINT) FROM synthetic (rate = 1) SHED ABOVE 1 PER SECOND INTO csv (path = 'e.csv');": "'e.csv'",
    "CREATE STREAM t (b BIGINT) FROM spark (format = 'text', path = '/etc');": "must be declared when the run starts",
    "CREATE QUERY q AS SELECT a FROM s [NOW] INTO postgres (url_env = 'HOME', table = 't');": "variable HOME was not",
    "CREATE QUERY q AS SELECT a FROM s [NOW] INTO postgres (url_file = '/etc/x', table = 't');": "path '/etc/x'",
    "CREATE QUERY q AS SELECT a FROM s [NOW] INTO kafka (brokers = 'h:1', topic = 't', ssl_key = 'k');": "path 'k'",
    "CREATE QUERY q AS SELECT a FROM s [NOW] INTO kafka (brokers = 'h:1', topic = 't', config = 'a = b');": "option config",
}


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_the_start_did_not_allow_cannot_come_from_outside(text: str, tmp_path: Path) -> None:
    running, live = changes(tmp_path)
    with pytest.raises((NotAllowed, CqlErrors)) as caught:
        live.add(text, outside=True)
    assert OUTSIDE[text] in str(caught.value)
    assert not running.asked


def test_what_runs_and_what_was_allowed_may_come_from_outside(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(x): return x\n")
    running, live = changes(tmp_path, str(tmp_path / "new"), "mine:f", "$PG_URL")
    live.change(text=APP + "CREATE QUERY three AS SELECT a FROM one;", outside=True)
    live.add("CREATE QUERY four AS SELECT a FROM s [NOW] INTO csv (path = 'new/four.csv');", outside=True)
    live.add(
        "CREATE STREAM n (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'new/in-*.csv', follow = true);",
        outside=True,
    )
    live.add(
        "CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'mine:f';\n"
        "CREATE QUERY five AS SELECT f(a) AS x FROM s [NOW] INTO postgres (url_env = 'PG_URL', table = 't');",
        outside=True,
    )
    assert len(running.asked) == 4
    assert live.save(str(tmp_path / "new" / "saved"), outside=True)
    with pytest.raises(NotAllowed):
        live.save(str(tmp_path / "other"), outside=True)


def test_paths_are_compared_as_the_file_system_sees_them(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    allowed = Allowed.parse(["in"], str(tmp_path))
    folder = str(tmp_path)
    assert allowed.allows_path("in", folder)
    assert allowed.allows_path("in/a/*.csv", folder)
    assert not allowed.allows_path("inside.csv", folder)
    assert not allowed.allows_path("in/../out.csv", folder)
    assert not allowed.allows_path("in*", folder)
    assert not allowed.allows_path("in/*/../../x", folder)
    assert not allowed.allows_path("s3://bucket/in", folder)
    assert not allowed.allows_path("in/\0", folder)
    assert not allowed.allows_path("in/\ud800", folder)
    assert not Allowed.parse(["in"], folder).allows_path("link/passwd", folder)
    assert not Allowed.parse([], folder).allows_path("in", folder)


def test_added_statements_keep_the_texts_of_earlier_ones(tmp_path: Path) -> None:
    app = read_app(text=APP, base=tmp_path)
    whole = with_statements(app, "CREATE QUERY three AS SELECT a FROM one;", read(tmp_path))
    assert whole.text == APP.rstrip() + "\nCREATE QUERY three AS SELECT a FROM one;"
