"""Checks that `kigen run` shows an app's warnings before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from kigen.cli import run_command

APP = """CREATE STREAM a (x BIGINT) FROM synthetic (rate = 10, rows = 10);
CREATE QUERY q AS SELECT p.x FROM a [ROWS 5] AS p, a [ROWS 5] AS r;
"""


class NotStarted(Exception):
    pass


def refuse(**_: object) -> None:
    raise NotStarted


def test_warnings_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.cql"
    path.write_text(APP, encoding="utf-8")
    monkeypatch.setattr(run_command, "Engine", refuse)
    with pytest.raises(NotStarted):
        run_command.run_app(run_command.RunArguments(path, True, None, "dt", "pack", None, None, None, None))
    shown = capsys.readouterr()
    assert shown.err.startswith(
        f"warning: {path}:2:52: this join is a cross product: each tuple of a meets up to 5 rows\n"
    )
    assert shown.out == ""
