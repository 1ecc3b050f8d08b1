"""What happens before Spark is there: the file system's classes, and no Java at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kigen.spark.file_system import compiled_classes


def test_classes_are_compiled_once_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compiled_classes()
    assert first is not None
    files = sorted(path.name for path in first.rglob("*.class"))
    assert files == ["NioLocalFileSystem.class", "NioRawFileSystem.class"]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert compiled_classes() == first


def test_without_a_place_or_a_java_to_compile_spark_keeps_its_own_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled_classes() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert compiled_classes() is None
    assert list((tmp_path / "cache" / "kigen").iterdir()) == []


@pytest.mark.timeout(120)
def test_without_java_the_command_says_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a,ts\n1,2026-01-01T00:00:00Z\n", encoding="utf-8")
    app = tmp_path / "app.cql"
    app.write_text(
        "CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv'); CREATE QUERY q AS SELECT a FROM s [ROWS 3];",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "kigen.cli.main", "run", str(app), "--drain"]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Kigen needs Java 17" in done.stderr
    assert "Traceback" not in done.stderr
