"""The library as Python sees it, without Spark: names, signatures, defaults, errors, check and explain."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import typer

import kigen
from kigen.cli import exits
from kigen.cli.main import app as command
from kigen.engine.apps import read_app
from kigen.plan.logical import App

STREAM = "CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'in.csv');\n"
APP = STREAM + "CREATE QUERY q AS SELECT v FROM s [ROWS 1];\n"
NOT_IN_THE_LIBRARY = {
    "NothingToDraw",
    "MatplotlibMissing",
    "NodeRefused",
    "NodeFailed",
    "ContestantFailed",
}  # of the command and the lab
BUILTINS = (ValueError, RuntimeError, OSError, MemoryError, ImportError)


def errors() -> list[type[Exception]]:
    found = [getattr(kigen, name) for name in kigen.__all__]
    return [value for value in found if isinstance(value, type) and issubclass(value, Exception)]


def made(error: type[Exception]) -> Exception:
    """An error of the class, with as many texts as it takes."""
    if error is kigen.CqlErrors:
        return error([kigen.CqlError("wrong", "a.cql", 2, 3)])
    if error is kigen.NodesFileError:
        return error("nodes.toml", ("one", "two"))
    if error is kigen.QueueError or issubclass(error, kigen.QueueError):
        return error("text", {"end": 3})
    for count in (1, 2, 3):
        try:
            return error(*["text"] * count)
        except TypeError:
            continue
    raise AssertionError(error)


def test_import_is_light_and_check_needs_no_spark(tmp_path: Path) -> None:
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    code = """
import sys
import kigen
light = {"pyspark", "pyarrow", "duckdb", "sqlglot", "pandas"} & set(sys.modules)
assert not light, light
assert kigen.check("app.cql") == []
assert "stream s" in kigen.explain("app.cql")
for error in (kigen.RunFailed, kigen.CheckpointMismatch, kigen.CheckpointInUse, kigen.ArgumentError, kigen.InputError,
              kigen.EvaluationError, kigen.MemoryLimitReached, kigen.DamagedFile, kigen.QueueError, kigen.CqlErrors):
    assert issubclass(error, Exception)
assert "pyspark" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_name_is_there() -> None:
    for name in kigen.__all__:
        assert getattr(kigen, name).__name__ == name
    assert set(kigen.__all__) == set(kigen._MODULES)
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        kigen.Motor  # noqa: B018


def test_every_error_of_the_exit_codes_is_in_the_library() -> None:
    known = exits._WRONG_APP_OR_ARGUMENTS | exits._RUN_FAILED
    assert known - NOT_IN_THE_LIBRARY <= set(kigen.__all__)


@pytest.mark.parametrize("error", errors(), ids=lambda error: error.__name__)
def test_errors_inherit_a_builtin_and_survive_pickling(error: type[Exception]) -> None:
    assert issubclass(error, BUILTINS)
    before = made(error)
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is error
    assert str(after) == str(before)
    assert vars(after).keys() == vars(before).keys()


def test_the_builtins_that_users_would_catch() -> None:
    assert issubclass(kigen.MemoryLimitReached, MemoryError)
    assert issubclass(kigen.AppNotFound, FileNotFoundError)
    assert issubclass(kigen.SparkDied, kigen.RunFailed)
    assert issubclass(kigen.RunFailed, RuntimeError)
    assert issubclass(kigen.InputError, ValueError)


def options() -> dict[str, tuple[Any, Any]]:
    """Type and default of every option."""
    return {f.name: (f.type, f.default) for f in fields(kigen.RunOptions)}


@pytest.mark.parametrize("function", [kigen.Engine.run, kigen.Engine.start])
def test_run_and_start_name_every_option_with_its_default(function: Any) -> None:
    parameters = dict(inspect.signature(function).parameters)
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in ("self", "app", "text", "base", "params"):
        parameters.pop(name)
    assert {name: (p.annotation, p.default) for name, p in parameters.items()} == options()
    assert not any(default is MISSING for _, default in options().values())


def test_the_command_has_the_same_defaults() -> None:
    run = typer.main.get_command(command).commands["run"]  # type: ignore[attr-defined]
    mine = {p.name: p.default for p in run.params}
    mine["allow"] = tuple(mine["allow"] or ())  # may be repeated
    shared = set(mine) & set(options()) - {"keep_results"}  # of the command: for how long --serve keeps changes
    of_runs = {"drain", "output", "checkpoint", "lifetime", "policy", "memory", "durability", "lanes"}
    assert shared == of_runs | {"replay_from", "no_change", "allow"}
    assert {name: mine[name] for name in shared} == {name: options()[name][1] for name in shared}


@pytest.mark.parametrize(("app", "text", "said"), [(None, None, "got neither"), ("a.cql", APP, "got both")])
def test_exactly_one_app(app: str | None, text: str | None, said: str) -> None:
    for function in (kigen.check, kigen.explain, kigen.Engine().prepare, kigen.Engine().run):
        with pytest.raises(kigen.ArgumentError, match=f"exactly one of app .a file. and text=.*{said}"):
            function(app, text=text)


def test_a_file_and_a_text_are_not_confused(tmp_path: Path) -> None:
    with pytest.raises(kigen.AppNotFound, match="pass the app itself as text="):
        kigen.check(APP)
    with pytest.raises(FileNotFoundError, match="found nothing there"):
        kigen.check(tmp_path / "missing.cql")
    with pytest.raises(kigen.AppNotFound, match="found a directory"):
        kigen.explain(tmp_path)
    with pytest.raises(kigen.ArgumentError, match="app must be the path of a file, got int"):
        kigen.check(3)  # type: ignore[arg-type]
    (tmp_path / "latin.cql").write_bytes(b"-- \xe9\n")
    with pytest.raises(kigen.AppNotFound, match="UTF-8"):
        kigen.check(tmp_path / "latin.cql")


def test_paths_of_a_text_start_at_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_app(text=APP).directory == str(tmp_path)
    assert read_app(text=APP, base="below").directory == str(tmp_path / "below")
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    with pytest.raises(kigen.ArgumentError, match="base= goes with text= only"):
        read_app("app.cql", base="below")
    plan = read_app("app.cql")
    assert isinstance(plan, App)
    assert read_app(plan) is plan


def test_check_returns_all_errors_or_the_warnings(tmp_path: Path) -> None:
    wrong = STREAM + "CREATE QUERY q AS SELECT w FROM s [ROWS 1];\nCREATE QUERY r AS SELECT v FROM t [ROWS 1];\n"
    found = kigen.check(text=wrong)
    assert [(error.file, error.line, error.underlined) for error in found] == [("<text>", 2, "w"), ("<text>", 3, "t")]
    costly = STREAM.replace("s (", "t (") + STREAM + "CREATE QUERY q AS SELECT s.v FROM s [UNBOUNDED], t [UNBOUNDED];"
    warnings = kigen.check(text=costly)
    assert warnings
    assert all(isinstance(warning, kigen.CqlWarning) for warning in warnings)
    (tmp_path / "app.cql").write_text(APP.replace("in.csv", "out/q.csv"), encoding="utf-8")
    assert kigen.check(tmp_path / "app.cql") == []
    assert "would overwrite" in str(kigen.check(tmp_path / "app.cql", output=tmp_path / "out")[0])


def test_explain_gives_what_the_command_shows(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    for format in ("text", "json", "mermaid"):
        shown = CliRunner().invoke(command, ["explain", str(tmp_path / "app.cql"), "--format", format]).stdout
        assert shown == kigen.explain(tmp_path / "app.cql", format=format) + "\n"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="format"):
        kigen.explain(text=APP, format="png")  # type: ignore[arg-type]


def test_wrong_options_are_argument_errors() -> None:
    for wrong in (
        {"lifetime": "xt"},
        {"policy": "none"},
        {"durability": "never"},
        {"memory": "lots"},
        {"checkpoint": "hdfs://a/b"},
        {"duration_s": 0},
        {"partitions": 0},
        {"batch_rows": 0},
        {"progress_every_s": 0},
    ):
        with pytest.raises(kigen.ArgumentError):
            kigen.RunOptions(**wrong)  # type: ignore[arg-type]
