"""The documents are true: their apps check, the README's example and the tutorial give what they say, their commands
run, and every function named on the path of a tuple exists."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kigen
from kigen.cli.main import app as command_line
from kigen.plan import bind
from kigen.plan.connectors.registry import REGISTRY
from kigen.schedule import POLICY_NAMES
from kigen.schedule.slices import ADMITTED_NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUPLE = (DOCS / "explanation" / "path-of-a-tuple.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "tutorial" / "first-app.md").read_text(encoding="utf-8")
KIGEN = ROOT / ".venv" / "bin" / "kigen"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def run_kigen(line: str, cwd: Path) -> str:
    """Runs a command line as the pages write it, and returns what it prints."""
    command = line.split("#")[0].strip().removeprefix(".venv/bin/").removeprefix("kigen")
    done = subprocess.run(
        f"{KIGEN}{command}", shell=True, cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def lines(path: Path) -> list[str]:
    return sorted(path.read_text(encoding="utf-8").splitlines())


def commands(text: str, start: str) -> list[str]:
    return [line for block in blocks(text, "sh") for line in block.splitlines() if line.startswith(start)]


def run_python(code: str) -> None:
    """Runs a page's program on the session of the tests: another start of Spark would show nothing more."""
    from pyspark.sql import SparkSession

    from kigen.spark.session.start import start_session

    session = SparkSession.getActiveSession() or start_session()
    program = code.replace("kigen.Engine()", "kigen.Engine(SESSION)")
    exec(compile(program, "page", "exec"), {"SESSION": session, "kigen": kigen})


@pytest.mark.timeout(900)  # several starts of Spark
def test_readme_example_gives_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, expected = blocks(README, "csv")
    (tmp_path / "hot.cql").write_text(blocks(README, "sql")[0], encoding="utf-8")
    (tmp_path / "readings.csv").write_text(given, encoding="utf-8")
    run_kigen("kigen run hot.cql --drain --output out", tmp_path)
    assert lines(tmp_path / "out" / "hot.csv") == sorted(expected.splitlines())
    monkeypatch.chdir(tmp_path)
    run_python(blocks(README, "python")[0])
    assert blocks(README, "text")[0].strip() in capsys.readouterr().out


@pytest.mark.timeout(900)  # several starts of Spark
def test_readme_commands_run() -> None:
    given = commands(README, ".venv")
    assert len(given) == 6
    shutil.rmtree(ROOT / "out" / "traffic", ignore_errors=True)  # a run that ended, maybe of another app
    subprocess.run([ROOT / ".venv" / "bin" / "python", "examples/rooms/make_data.py"], cwd=ROOT, check=True, timeout=60)
    for line in given:
        run_kigen(line, ROOT)
    assert (ROOT / "out" / "rooms.png").stat().st_size > 10_000
    assert len((ROOT / "out" / "traffic" / "warnings.csv").read_text(encoding="utf-8").splitlines()) > 10


def test_readme_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    subprocess.run([ROOT / ".venv" / "bin" / "python", "examples/rooms/make_data.py"], cwd=ROOT, check=True, timeout=60)
    _, code = blocks(README, "python")
    run_python(code)
    assert "server room" in capsys.readouterr().out


def test_readme_names_the_two_commands() -> None:
    assert "make demo" in README
    assert "make test" in README


@pytest.mark.timeout(900)  # several starts of Spark
def test_the_tutorial_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readings, hot, alarms = blocks(TUTORIAL, "csv")
    rooms, second_query, live = blocks(TUTORIAL, "sql")
    check, run, picture, explain, run_live = commands(TUTORIAL, "kigen ")[1:]  # the first warms Spark up
    app, out = tmp_path / "rooms.cql", tmp_path / "out"
    (tmp_path / "readings.csv").write_text(readings, encoding="utf-8")

    app.write_text(rooms, encoding="utf-8")
    assert "1 stream, 1 query, no errors" in run_kigen(check, tmp_path)
    app.write_text(rooms.replace("AVG(temp) AS", "AVG(tmp) AS"), encoding="utf-8")
    wrong = subprocess.run([KIGEN, "check", app], capture_output=True, text=True, timeout=240, check=False)
    assert wrong.returncode == 2
    assert "did you mean temp?" in wrong.stdout + wrong.stderr

    app.write_text(rooms, encoding="utf-8")
    run_kigen(run, tmp_path)
    assert lines(out / "hot.csv") == sorted(hot.splitlines())
    run_kigen(picture, tmp_path)
    assert (tmp_path / "hot.png").stat().st_size > 5_000

    app.write_text(rooms + second_query, encoding="utf-8")
    run_kigen(run, tmp_path)
    assert lines(out / "alarms.csv") == sorted(alarms.splitlines())
    assert "alarms" in run_kigen(explain, tmp_path)

    (tmp_path / "live.cql").write_text(live, encoding="utf-8")
    assert "hot" in run_kigen(run_live, tmp_path)
    assert (tmp_path / "live.json").exists()
    monkeypatch.chdir(tmp_path)
    run_python(blocks(TUTORIAL, "python")[0])
    assert "|office|30.0|" in capsys.readouterr().out


PAGES = [ROOT / "README.md", *(p for p in sorted(DOCS.rglob("*.md")) if p.parent.name not in ("decisions", "tutorial"))]
APPS = [(p.name, text) for p in PAGES for text in blocks(p.read_text(encoding="utf-8"), "sql")]


@pytest.mark.parametrize(("page", "text"), APPS, ids=[f"{page}-{i}" for i, (page, _) in enumerate(APPS)])
def test_apps_check(page: str, text: str) -> None:
    if "CREATE STREAM" in text:
        assert bind(text, page, str(ROOT)).queries


def test_every_function_named_exists() -> None:
    names = set(re.findall(r"`(kigen(?:\.\w+)+)`", TUPLE))
    assert len(names) > 30
    for name in names:
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            for part in parts[cut:]:
                found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
            break
        else:
            pytest.fail(name)


def test_every_short_name_exists_in_the_kernel() -> None:
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src" / "kigen").rglob("*.py"))
    for name in set(re.findall(r"`([A-Z]\w+[a-z]\w*(?:\.\w+)?|\w+_\w+)`", TUPLE)):
        for part in name.split("."):
            assert re.search(rf"\b(class|def) {part}\b", source), name


def test_references_are_complete() -> None:
    policies = (DOCS / "reference" / "policies.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in policies for name in (*POLICY_NAMES, *ADMITTED_NAMES))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    for spec in REGISTRY.all():
        assert f"`{spec.name}`" in pages, spec.name
        assert not [
            option for option in spec.options_in("table") | spec.options_in("sink") if f"`{option}`" not in pages
        ], spec.name


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "check",
        "explain",
        "plan-change",
        "add",
        "drop",
        "change",
        "save",
        "up",
        "node",
        "status",
        "picture",
        "warm",
    ],
)
def test_every_option_of_a_command_is_described(command: str) -> None:
    page = (DOCS / "reference" / "command.md").read_text(encoding="utf-8")
    shown = CliRunner().invoke(command_line, [command, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    options = set(re.findall(r"--[a-z][a-z-]+", shown.output)) - {"--help"}
    assert options
    missing = {option for option in options if option not in page}
    assert not missing, missing
