"""The secret for keys: there is one per checkpoint, it is private, and it is the same after a restart."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kigen.durable import DamagedFile
from kigen.engine.checkpoint.key_secret import key_secret


def test_a_checkpoint_keeps_its_secret(tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir(), other.mkdir()
    secret = key_secret(first, sync=True)
    assert key_secret(first, sync=False) == secret
    assert key_secret(other, sync=False) != secret
    assert stat.S_IMODE((first / "keys.secret").stat().st_mode) == 0o600
    assert [file.name for file in first.iterdir()] == ["keys.secret"]


def test_a_torn_secret_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys.secret").write_text("")
    with pytest.raises(DamagedFile, match=r"keys\.secret"):
        key_secret(tmp_path, sync=True)
