"""Checks arguments, messages and exit codes of the command. Nothing here starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app

APP = """CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE QUERY q AS SELECT a FROM s [ROWS 3];
"""
runner = CliRunner()


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    path = tmp_path / "app.cql"
    path.write_text(APP, encoding="utf-8")
    return path


def test_version_and_help() -> None:
    assert runner.invoke(app, ["--version"]).output.startswith("kigen 0.")
    shown = runner.invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert "kigen run rooms.cql --drain --output out" in " ".join(shown.output.split())
    flags = runner.invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for flag in ("--drain", "--output", "--lifetime", "--policy", "--master", "--checkpoint", "--report", "--duration"):
        assert flag in flags
    assert "salvage" in flags
    placing = " ".join(runner.invoke(app, ["explain", "--help"], env={"COLUMNS": "200"}).output.split())
    assert "Needs kigen[nodes]" in placing, "brackets are text, not markup"


def test_check_counts_what_it_found(app_file: Path) -> None:
    done = runner.invoke(app, ["check", str(app_file)])
    assert (done.exit_code, done.output) == (0, f"{app_file}: 1 stream, 1 query, no errors\n")


@pytest.mark.parametrize(
    ("files", "warned"),
    [
        ({"s.csv": "a,ts\n"}, []),
        ({"s.csv": "A, ts \n1,2026-01-01T00:00:00Z\n"}, []),
        ({"s.csv": "at,ts\n"}, ["1:18: column a is missing in s.csv: it will be NULL", "did you mean at?"]),
        ({"s.csv": "a,time\n"}, ["1:28: column ts is missing in s.csv: the run will not accept the file"]),
        ({"s.csv": ""}, []),
        ({"s/1.csv": "b,ts\n", "s/2.csv": "a,ts\n"}, []),
        ({"s/1.csv": "b,ts\n", "s/2.csv": "ts\n"}, ["column a is missing in s/1.csv and s/2.csv: it will be NULL"]),
        ({"s.jsonl": '{"ts": "2026-01-01T00:00:00Z"}\n{"ts": "2026-01-01T00:00:00Z", "a": 1}\n'}, []),
        ({"s.jsonl": '{"ts": "2026-01-01T00:00:00Z", "aa": 1}\n'}, ["column a is missing in s.jsonl", "mean aa?"]),
        ({}, []),
    ],
)
def test_check_warns_of_columns_that_the_files_lack(
    app_file: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], warned: list[str]
) -> None:
    monkeypatch.chdir(app_file.parent)
    name = next(iter(files), "s.csv")
    path, kind = name.partition("/")[0], name.rpartition(".")[2]
    app_file.write_text(APP.replace("csv (path = 's.csv')", f"{kind} (path = '{path}')"), encoding="utf-8")
    for file, text in files.items():
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    done = runner.invoke(app, ["check", str(app_file)])
    assert done.exit_code == 0, done.output
    found = " ".join(done.stderr.split())
    assert ("warning:" in found) == bool(warned)
    assert done.stdout.endswith(f"no errors{', 1 warning' if warned else ''}\n")
    for text in warned:
        assert text in found


def test_check_shows_every_error_with_its_place(app_file: Path) -> None:
    app_file.write_text(
        APP + "CREATE QUERY r AS SELECT b FROM s [ROWS 3];\nCREATE QUERY t AS SELECT a FROM u [ROWS 3];\n",
        encoding="utf-8",
    )
    done = runner.invoke(app, ["check", str(app_file)])
    assert done.exit_code == 2
    assert f"{app_file}:3:26:" in done.stderr
    assert f"{app_file}:4:33:" in done.stderr
    assert "^" in done.stderr


@pytest.mark.parametrize("format", ["text", "json", "mermaid"])
def test_explain(app_file: Path, format: str) -> None:
    done = runner.invoke(app, ["explain", str(app_file), "--format", format])
    assert done.exit_code == 0, done.output
    assert "q" in done.output
    if format == "json":
        json.loads(done.output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "soon"], "no policy 'soon': write one of all"),
        (["--lifetime", "xt"], "lifetime 'xt' is not known: use one of dt, nt"),
        (["--duration", "soon"], "--duration must be a positive duration such as '60 s'"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_arguments_are_exit_2(app_file: Path, arguments: list[str], message: str) -> None:
    done = runner.invoke(app, ["run", str(app_file), *arguments])
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_missing_app_file_is_exit_2(tmp_path: Path) -> None:
    done = runner.invoke(app, ["run", str(tmp_path / "none.cql")])
    assert done.exit_code == 2
    assert "an app file is required" in done.stderr


def test_a_missing_input_file_is_exit_1_and_spark_is_not_started(app_file: Path) -> None:
    done = runner.invoke(app, ["run", str(app_file), "--drain", "--master", "spark://nowhere.invalid:1"])
    assert done.exit_code == 1
    assert "s.csv" in done.stderr
    assert "Traceback" not in done.stderr
