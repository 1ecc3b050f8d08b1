"""`kigen add`, `drop`, `change` and `save` against the server of a stand-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "web"))

from standin import StandIn

from kigen.cli.main import app
from kigen.engine.options import RunOptions
from kigen.web.server import WebServer

Call = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[StandIn]:
    made = StandIn(tmp_path)
    yield made
    assert made.ingest is not None
    made.ingest.close()


@pytest.fixture
def call(run: StandIn, tmp_path: Path) -> Iterator[Call]:
    with WebServer(run, tmp_path / "serve", "127.0.0.1:0") as server:
        where = ["--at", str(server.address), "--token", str(server.access.token_file)]
        yield lambda *words, **more: CliRunner().invoke(app, [*words, *where], **more)


def test_a_file_is_added_and_its_answer_shown(run: StandIn, call: Call, tmp_path: Path) -> None:
    (tmp_path / "more.cql").write_text("CREATE QUERY more AS SELECT k FROM posted [NOW] WHERE v > $limit;\n")
    planned = call("add", str(tmp_path / "more.cql"), "--set", "limit=3", "--plan")
    assert planned.output == "a table\nplanned only: nothing has changed\n"
    made = call("add", str(tmp_path / "more.cql"), "--set", "limit=3")
    assert (made.exit_code, made.output) == (0, "a table\nchanged; all queries waited 0.2 s\n")
    assert "v > 3" in run.app.text
    told = call("drop", "more", "--format", "json")
    assert json.loads(told.output)["queries"] == [{"query": "hot", "action": "keep"}]
    assert len(run.app.queries) == 1


def test_standard_input_and_a_whole_app(run: StandIn, call: Call, tmp_path: Path) -> None:
    assert call("add", "-", input="CREATE QUERY more AS SELECT k FROM posted [NOW];").exit_code == 0
    (tmp_path / "part.cql").write_text("CREATE QUERY part AS SELECT v FROM posted [NOW];\n")
    (tmp_path / "whole.cql").write_text(
        "CREATE STREAM posted (k STRING, v DOUBLE) BUFFER 1000 FROM http ();\nINCLUDE 'part.cql';\n"
    )
    assert call("change", str(tmp_path / "whole.cql")).exit_code == 0
    assert [q.name for q in run.app.queries] == ["part"]


def test_errors_point_at_the_files_here(call: Call, tmp_path: Path) -> None:
    (tmp_path / "part.cql").write_text("\nCREATE QUERY part AS SELECT w FROM posted [NOW];\n")
    (tmp_path / "whole.cql").write_text("-- an app\nINCLUDE 'part.cql';\n")
    wrong = call("add", str(tmp_path / "whole.cql"))
    assert wrong.exit_code == 2
    assert "part.cql:2:29: unknown column w" in wrong.output
    assert "SELECT w FROM posted" in wrong.output
    assert "^" in wrong.output


def test_refusals_end_with_2_and_the_words_of_the_app(run: StandIn, call: Call, tmp_path: Path) -> None:
    missing = call("drop", "cold")
    assert (missing.exit_code, missing.output) == (2, "error: there is no query 'cold': queries here: hot\n")
    assert call("add", str(tmp_path / "none.cql")).exit_code == 2
    assert "--token FILE" in CliRunner().invoke(app, ["drop", "hot", "--at", "127.0.0.1:1"]).output
    run.options = RunOptions(allow=(str(tmp_path),))
    saved = call("save", str(tmp_path / "saved"))
    assert saved.exit_code == 0
    assert saved.output.splitlines() == [
        f"saved to {tmp_path}/saved: hot, after batch 3; all queries waited 0.5 s",
        "not in it: what stream 'cars' reads in place, csv cars.csv",
        "not in it: output 'hot output', which continues after {\"bytes\": 7}",
        f"continue with:  kigen run APP --checkpoint {tmp_path}/saved",
    ]
    assert "exactly one of --checkpoint" in CliRunner().invoke(app, ["save", "x"]).output
