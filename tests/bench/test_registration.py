"""Checks that a benchmark is a function and a line of registration: options, progress, files and
exit codes are common.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer
from kigen_lab.bench.registration import Advance, Benchmark, Measurement, Result, Say
from kigen_lab.bench.registry import BENCHMARKS
from typer.testing import CliRunner

runner = CliRunner()


def prepare(
    say: Say,
    quick: bool,
    out: Path,
    count: Annotated[int, typer.Option(metavar="N", help="How many.")] = 3,
    fail: bool = False,
) -> Measurement:
    """Count to N."""

    def run(advance: Advance) -> Result:
        for i in range(count):
            say(f"at {i}")
            advance()
        return {"count": count, "quick": quick}

    def draw(result: Result, picture: Path) -> None:
        picture.write_text(str(result["count"]), encoding="utf-8")

    return Measurement(
        count, run, lambda result: f"counted to {result['count']}", draw, lambda: "no more numbers" if fail else None
    )


@pytest.fixture
def command() -> typer.Typer:
    group = typer.Typer()
    Benchmark("counting", "kigen bench counting --count 2", prepare).add_to(group)
    Benchmark("other", "kigen bench other", prepare).add_to(group)
    return group


def test_a_benchmark_has_the_common_options_and_its_own(command: typer.Typer) -> None:
    shown = runner.invoke(command, ["counting", "--help"], env={"COLUMNS": "160"}).output
    for text in ("Count to N.", "--quick", "--json", "--out", "--count", "How many.", "kigen bench counting --count 2"):
        assert text in shown
    assert "--say" not in shown


def test_its_result_is_shown_written_and_drawn(command: typer.Typer, tmp_path: Path) -> None:
    done = runner.invoke(command, ["counting", "--quick", "--out", str(tmp_path), "--count", "2"])
    assert done.exit_code == 0, done.output
    assert "counted to 2" in done.stdout
    assert done.stderr.splitlines() == ["at 0", "at 1"]
    assert json.loads((tmp_path / "counting.json").read_text(encoding="utf-8")) == {"count": 2, "quick": True}
    assert (tmp_path / "counting.png").read_text(encoding="utf-8") == "2"
    elsewhere = tmp_path / "numbers" / "all.json"
    runner.invoke(command, ["counting", "--out", str(tmp_path), "--json", str(elsewhere)])
    assert json.loads(elsewhere.read_text(encoding="utf-8"))["count"] == 3


def test_what_was_measured_before_a_failure_is_delivered(command: typer.Typer, tmp_path: Path) -> None:
    done = runner.invoke(command, ["counting", "--out", str(tmp_path), "--fail"])
    assert done.exit_code == 1
    assert "no more numbers" in done.stderr
    assert (tmp_path / "counting.json").exists()


def test_all_benchmarks_are_registered_once() -> None:
    folders = {p.parent.name for p in Path(str(__import__("kigen_lab").__path__[0])).glob("bench/*/registered.py")}
    assert {benchmark.name.replace("-", "_") for benchmark in BENCHMARKS} == folders
    assert len(BENCHMARKS) == len(folders)
