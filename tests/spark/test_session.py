"""The start of Spark: the home that it starts from, and machines without Java."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

from kigen.engine import Engine
from kigen.spark.session.spark_home import spark_home
from kigen.spark.session.start import jvm_pid, quiet, uses_kigen_home


def test_the_home_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    orphan = tmp_path / "kigen" / "spark-0"
    orphan.mkdir(parents=True)
    (orphan / "jars").symlink_to(tmp_path / "a PySpark that was removed")
    first = spark_home()
    assert first is not None
    assert sorted(zipfile.ZipFile(first.jar).namelist()) == [
        "kigen/NioLocalFileSystem.class",
        "kigen/NioRawFileSystem.class",
    ]
    assert any((first.folder / "jars").glob("spark-core*.jar"))
    assert not (first.folder / "python").exists()
    assert not orphan.exists()
    first.jar.unlink()
    assert spark_home() == first
    assert first.jar.exists(), "made again, since it was not complete"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert spark_home() == first


@pytest.mark.parametrize(("name", "value"), [("SPARK_HOME", "/opt/spark"), ("PYSPARK_PYTHON", "/opt/python")])
def test_what_the_user_has_set_is_left_alone(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(each, raising=False)
    assert uses_kigen_home()
    monkeypatch.setenv(name, value)
    assert not uses_kigen_home()


def test_another_java_needs_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = spark_home()
    assert home is not None
    before = home.archive
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert home.archive != before


def test_workers_import_the_installed_pyspark(engine: Engine) -> None:
    def where(_: object) -> Iterator[pa.RecordBatch]:
        import pyspark

        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    with quiet():
        [[found]] = engine.spark.range(1).coalesce(1).mapInArrow(where, "file string").collect()
    assert found == pyspark.__file__, "from a zip every import is compiled anew"


def test_an_archive_of_classes_is_used_if_there_is_one(engine: Engine) -> None:
    home = spark_home()
    assert home is not None
    given = engine.spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert (f"-XX:SharedArchiveFile={home.archive}" in list(given)) == home.archive.exists()
    pid = jvm_pid(engine.spark)
    assert (str(home.archive) in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")) == home.archive.exists(), (
        "it was refused"
    )


def test_without_a_place_or_a_java_to_compile_spark_keeps_its_own_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_home() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert spark_home() is None
    assert list((tmp_path / "cache" / "kigen").iterdir()) == []


@pytest.mark.timeout(300)
def test_without_java_the_command_says_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a,ts\n1,2026-01-01T00:00:00Z\n", encoding="utf-8")
    app = tmp_path / "app.cql"
    app.write_text(
        "CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv'); CREATE QUERY q AS "
        "SELECT a FROM s [ROWS 3];",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "kigen.cli.main", "run", str(app), "--drain"]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Kigen needs Java 17" in done.stderr
    assert "Traceback" not in done.stderr
