"""Tests log files: readable by the owner only, and limited in length."""

from __future__ import annotations

from pathlib import Path

from kigen.durable import open_log, rotate_log


def test_a_log_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch(mode=0o644)
    with open_log(path) as log:
        log.write(b"x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine", encoding="utf-8")
    (tmp_path / "log").symlink_to(tmp_path / "other")
    with open_log(tmp_path / "log") as log:
        log.write(b"x")
    assert (tmp_path / "other").read_text(encoding="utf-8") == "mine"


def test_a_long_log_is_rotated_under_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_log(path) as log:
        for round in range(4):
            log.write(bytes([65 + round]) * 600)
            log.flush()
            assert rotate_log(path, longest_bytes=1000) == (round % 2 == 1)
    assert path.read_bytes() == b""
    assert path.with_name("log.1").read_bytes() == b"C" * 600 + b"D" * 600
    assert path.with_name("log.1").stat().st_mode & 0o777 == 0o600
