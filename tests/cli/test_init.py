"""Tests of `kigen init`: the project that it writes is right, and its own test passes."""

from __future__ import annotations

from pathlib import Path

import pytest

import kigen
from kigen.cli.init_command import init_project


def test_the_project_works(tmp_path: Path) -> None:
    files = init_project(tmp_path / "rooms")
    assert all(path.is_file() for path in files)
    app = tmp_path / "rooms" / "app.cql"
    assert kigen.check(app, params={"limit": 22}) == []
    names: dict[str, object] = {"__file__": str(tmp_path / "rooms" / "test_app.py")}
    exec((tmp_path / "rooms" / "test_app.py").read_text(encoding="utf-8"), names)
    names["test_a_room_is_hot_while_its_mean_is_above_the_limit"]()  # type: ignore[operator]


def test_no_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(kigen.ArgumentError, match=r"README.md is there already"):
        init_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
