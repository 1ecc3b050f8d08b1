"""Tests that outputs overwrite neither inputs nor each other: `check` refuses them at the place that declares the
output, and opens nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app
from kigen.engine import Engine, RunOptions
from kigen.engine.errors import ArgumentError
from kigen.language import CqlErrors
from kigen.plan import bind, load_app

STREAM = "CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = '{}');\n"
LINES = "v,ts\n1,2026-01-01T00:00:00Z\n"
runner = CliRunner()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in.csv").write_text(LINES, encoding="utf-8")
    (tmp_path / "data" / "part-00000.parquet").write_bytes(b"not read here")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "data" / "in.csv")
    (tmp_path / "folder").symlink_to(tmp_path / "data")
    os.link(tmp_path / "data" / "in.csv", tmp_path / "twin.csv")


def query(name: str, into: str) -> str:
    return f"CREATE QUERY {name} AS SELECT v FROM s [NOW] INTO {into};\n"


REFUSED = {
    "its own file": STREAM.format("data/in.csv") + query("q", "csv (path = 'data/in.csv')"),
    "by a detour": STREAM.format("data/in.csv") + query("q", "csv (path = 'data/../data/./in.csv')"),
    "by a link": STREAM.format("data/in.csv") + query("q", "csv (path = 'linked.csv')"),
    "by a linked folder": STREAM.format("folder/in.csv") + query("q", "csv (path = 'data/in.csv')"),
    "by another name of the file": STREAM.format("data/in.csv") + query("q", "csv (path = 'twin.csv')"),
    "into a folder that is read": STREAM.format("data") + query("q", "csv (path = 'data/out.csv')"),
    "into a pattern that is read": STREAM.format("data/*.csv") + query("q", "csv (path = 'folder/out.csv')"),
    "into a deep pattern": STREAM.format("data/**/*.csv") + query("q", "csv (path = 'data/a/b/out.csv')"),
    "a folder that holds the input": STREAM.format("data/in.csv") + query("q", "parquet (path = 'data')"),
    "a folder above the input": STREAM.format("data/in.csv") + query("q", "parquet (path = '.')"),
    "the app file": STREAM.format("data/in.csv") + query("q", "csv (path = 'app.cql')"),
    "two queries into one file": STREAM.format("data/in.csv")
    + query("q", "csv (path = 'o.csv')")
    + query("r", "csv (path = './o.csv')"),
    "two queries into one folder": STREAM.format("data/in.csv")
    + query("q", "parquet (path = 'o')")
    + query("r", "parquet (path = 'o/')"),
    "a file in another's way": STREAM.format("data/in.csv")
    + query("q", "csv (path = 'o')")
    + query("r", "csv (path = 'o/r.csv')"),
    "what is shed": "CREATE STREAM t (v BIGINT) FROM synthetic (rate = 1) SHED ABOVE 5 PER SECOND INTO csv (path = "
    "'data/in.csv');\n" + STREAM.format("data/in.csv") + "CREATE QUERY q AS SELECT v FROM s [NOW];\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_at_check(case: str, tmp_path: Path) -> None:
    file = tmp_path / "app.cql"
    file.write_text(REFUSED[case], encoding="utf-8")
    done = runner.invoke(app, ["check", "app.cql"])
    assert done.exit_code == 2, done.output
    line = next(
        i
        for i, text in enumerate(REFUSED[case].splitlines(), 1)
        if "INTO" in text and (i == 1 or text.startswith("CREATE QUERY"))
    )
    assert f"app.cql:{line + ('two' in case or 'way' in case)}:" in done.stderr
    assert "^^^" in done.stderr
    assert "would overwrite" in done.stderr or "are the same" in done.stderr
    assert (tmp_path / "data" / "in.csv").read_text(encoding="utf-8") == LINES


def test_what_is_apart_passes(tmp_path: Path) -> None:
    text = (
        STREAM.format("data/*.csv")
        + query("q", "csv (path = 'data/out/q.csv')")
        + query("r", "parquet (path = 'data/out')")
    )
    (tmp_path / "app.cql").write_text(text, encoding="utf-8")
    load_app("app.cql", "out")
    load_app("app.cql", "data/out2")


@pytest.mark.parametrize("name", ['"../../x"', '"a/b"', '"a\\b"', '"x\ty"', f'"{"n" * 300}"'])
def test_names_that_would_leave_the_folder(name: str) -> None:
    with pytest.raises(CqlErrors, match="the name") as found:
        bind(STREAM.format("data/in.csv") + f"CREATE QUERY {name} AS SELECT v FROM s [NOW];")
    assert found.value.errors[0].underlined.startswith('"')
    with pytest.raises(CqlErrors, match="the name"):
        bind(f"CREATE STREAM {name} (v BIGINT) FROM synthetic (rate = 1);")


def test_the_folder_of_output(tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text(
        STREAM.format("data/in.csv") + 'CREATE QUERY "in" AS SELECT v FROM s [NOW];', encoding="utf-8"
    )
    for command in (["check", "app.cql", "--output", "folder"], ["run", "app.cql", "--drain", "--output", "folder"]):
        done = runner.invoke(app, command)
        assert done.exit_code == 2, done.output
        assert "app.cql:2:14: --output of query in would overwrite the input of stream s" in done.stderr
        assert "^^^^" in done.stderr
    with pytest.raises(CqlErrors, match="would overwrite"):
        Engine().prepare("app.cql", RunOptions(drain=True, output="folder"))
    with pytest.raises(ArgumentError, match="would overwrite"):
        Engine().prepare(load_app("app.cql"), RunOptions(drain=True, output="folder"))
    (tmp_path / "o.cql").write_text(
        STREAM.format("data/in.csv") + query("q", "csv (path = 'out/q.csv')"), encoding="utf-8"
    )
    done = runner.invoke(app, ["check", "o.cql", "--output", "out"])
    assert done.exit_code == 2
    assert "are the same" in done.stderr
    done = runner.invoke(app, ["run", "o.cql", "--report", "data/in.csv"])
    assert done.exit_code == 2
    assert "--report would overwrite the input of stream s" in done.stderr
    assert (tmp_path / "data" / "in.csv").read_text(encoding="utf-8") == LINES
