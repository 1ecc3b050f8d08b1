"""Tests of parameters and included files: values, places of errors, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import kigen
from kigen.cli.loading import parameters
from kigen.language import CqlErrors
from kigen.language.expansion import literal, value_of
from kigen.plan import bind, load_app
from kigen.plan.logical import Filter, Project

STREAM = "CREATE STREAM s (a BIGINT, c STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = $path);\n"


def test_values_become_literals() -> None:
    app = bind(
        STREAM + "CREATE QUERY q AS SELECT a FROM s [RANGE $n SECONDS] WHERE c = $who AND a > $least;",
        params={"path": "it's.csv", "n": 5, "who": "O'Brien", "Least": -3},
    )
    assert dict(app.streams[0].source.options) == {"path": "it's.csv"}
    root = app.queries[0].root
    assert isinstance(root, Project)
    assert isinstance(root.child, Filter)
    assert root.child.predicate.sql == "c1 = 'O''Brien' and c0 > - 3"


def test_literals() -> None:
    moment = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    values = (None, True, 1, 2.5, "x'y", moment)
    assert [literal(v) for v in values] == ["NULL", "TRUE", "1", "2.5", "'x''y'", "TIMESTAMP '2024-01-02 03:04:05'"]
    assert [value_of(t) for t in ("1", "-2.5", "true", "x", "'1'", "1e3")] == [1, -2.5, True, "x", "1", 1000.0]
    assert parameters(["$a=1", "b=x=y"]) == {"a": 1, "b": "x=y"}
    with pytest.raises(kigen.ArgumentError, match="NAME=VALUE"):
        parameters(["nothing"])


def test_a_value_without_a_parameter_is_refused() -> None:
    with pytest.raises(CqlErrors, match=r"no parameter \$pth"):
        bind(STREAM + "CREATE QUERY q AS SELECT a FROM s [NOW];", params={"path": "s.csv", "pth": 1})


def test_errors_point_at_what_the_user_wrote(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "app.cql").write_text(
        "INCLUDE 'sub/streams.cql';\nCREATE QUERY q AS SELECT a, x FROM s [ROWS $rows] WHERE c = $who AND y > 1;\n"
    )
    (tmp_path / "sub" / "streams.cql").write_text("INCLUDE 'more.cql';\n" + STREAM + "CREATE STREAM b (a FOO);")
    (tmp_path / "sub" / "more.cql").write_text("CREATE QUERY r AS SELECT z FROM s [NOW]")
    with pytest.raises(CqlErrors) as caught:
        load_app(tmp_path / "app.cql", params={"rows": 12345678, "who": "a longer name", "path": "s.csv"})
    found = {(Path(e.file).name, e.line, e.column, e.underlined) for e in caught.value.errors}
    assert found >= {
        ("app.cql", 2, 29, "x"),
        ("app.cql", 2, 70, "y"),
        ("streams.cql", 3, 20, "FOO"),
        ("more.cql", 1, 26, "z"),
    }


def test_files_that_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.cql").write_text("INCLUDE 'b.cql';")
    (tmp_path / "b.cql").write_text("INCLUDE 'a.cql';")
    with pytest.raises(CqlErrors, match="include each other in a cycle"):
        load_app(tmp_path / "a.cql")


def test_python_takes_parameters() -> None:
    text = STREAM + "CREATE QUERY q AS SELECT a FROM s [NOW] LIMIT $n;"
    assert kigen.check(text=text, params={"path": "s.csv", "n": 3}) == []
    assert "first 3" in kigen.explain(text=text, params={"path": "s.csv", "n": 3})
    assert "has no value" in str(kigen.check(text=text, params={"path": "s.csv"})[0])
