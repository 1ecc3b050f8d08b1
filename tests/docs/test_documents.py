"""The documents are true: their apps check, the README's example gives what it says, its commands run, every function
named exists."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import kigen
from kigen.plan import bind

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUPLE = (ROOT / "docs" / "explanation" / "path-of-a-tuple.md").read_text(encoding="utf-8")
KIGEN = ROOT / ".venv" / "bin" / "kigen"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def test_readme_example_gives_what_it_says(tmp_path: Path) -> None:
    given, expected = blocks(README, "csv")
    (tmp_path / "hot.cql").write_text(blocks(README, "sql")[0], encoding="utf-8")
    (tmp_path / "readings.csv").write_text(given, encoding="utf-8")
    done = subprocess.run(
        [KIGEN, "run", "hot.cql", "--drain", "--output", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "out" / "hot.csv").read_text(encoding="utf-8").splitlines()) == sorted(
        expected.splitlines()
    )


def test_readme_commands_run() -> None:
    commands = [
        line.split("#")[0].strip()
        for block in blocks(README, "sh")
        for line in block.splitlines()
        if line.startswith(".venv")
    ]
    assert len(commands) == 6
    shutil.rmtree(ROOT / "out" / "traffic", ignore_errors=True)  # a run that ended, maybe of another app
    subprocess.run([ROOT / ".venv" / "bin" / "python", "examples/rooms/make_data.py"], cwd=ROOT, check=True, timeout=60)
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert (ROOT / "out" / "rooms.png").stat().st_size > 10_000
    assert len((ROOT / "out" / "traffic" / "warnings.csv").read_text(encoding="utf-8").splitlines()) > 10


def test_readme_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = blocks(README, "python")
    code = code.replace("kigen.Engine()", "kigen.Engine(SESSION)")
    from pyspark.sql import SparkSession

    from kigen.spark.session.start import start_session

    session = SparkSession.getActiveSession() or start_session()
    exec(compile(code, "README.md", "exec"), {"SESSION": session, "kigen": kigen})
    assert "server room" in capsys.readouterr().out


@pytest.mark.parametrize("text", [*blocks(README, "sql"), *blocks(TUPLE, "sql")])
def test_apps_check(text: str) -> None:
    assert bind(text, "document", str(ROOT)).queries


def test_every_function_named_exists() -> None:
    names = set(re.findall(r"`(kigen(?:\.\w+)+)`", TUPLE))
    assert len(names) > 8
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
    for name in set(re.findall(r"`([A-Z]\w+(?:\.\w+)?|\w+_\w+)`", TUPLE)):
        for part in name.split("."):
            assert re.search(rf"\b(class|def) {part}\b", source), name
