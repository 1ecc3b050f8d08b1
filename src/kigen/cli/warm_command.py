"""`kigen warm`: one small run whose JVM leaves its classes behind, so that every later Spark starts in about half the
time."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import typer
from pyspark import SparkContext

from kigen.engine import Engine
from kigen.spark.session.spark_home import spark_home
from kigen.spark.session.start import SparkUnavailable, is_ours, start_session

_END_S = 120.0  # the JVM writes the archive while it ends
_APP = """
CREATE STREAM a (x BIGINT)
  FROM synthetic (rate = 50, seed = 1, duration = '5 s', start = '2026-01-01T00:00:00Z', x = 'zipf(1.2, 6)');
CREATE STREAM b (x BIGINT)
  FROM synthetic (rate = 50, seed = 2, duration = '5 s', start = '2026-01-01T00:00:00Z', x = 'zipf(1.2, 6)');
CREATE QUERY pairs AS SELECT a.x FROM a [RANGE 1 SECONDS], b [ROWS 5] WHERE a.x = b.x;
CREATE QUERY counts AS SELECT x, COUNT(*) AS n FROM a [RANGE 1 SECONDS] GROUP BY x;
"""


def warm_spark(again: bool) -> None:
    home = spark_home()
    if home is None:
        raise SparkUnavailable(
            "Kigen's cache cannot be written, or there is no Java: nothing can be kept there (see XDG_CACHE_HOME)"
        )
    if home.archive.exists() and not again:
        typer.echo(f"already there: {home.archive}")
        return
    if not is_ours():
        raise SparkUnavailable(
            "SPARK_HOME or PYSPARK_PYTHON is set: Spark starts from there, and nothing is kept for it"
        )
    with tempfile.TemporaryDirectory(dir=home.folder) as folder:  # if this ends early, the JVM has nowhere to write
        app, growing = Path(folder) / "warm.cql", Path(folder) / "classes.jsa"
        app.write_text(_APP, encoding="utf-8")
        with Engine(start_session(archive=growing)) as engine:
            engine.run(app, drain=True)
        _end_of_jvm()
        if not growing.exists():
            raise SparkUnavailable(
                "this Java keeps no archive of classes; Spark runs all the same, and starts as before"
            )
        growing.replace(home.archive)
    for old in home.folder.glob("classes-*.jsa"):
        if old != home.archive:
            old.unlink()  # of another Java, or of jars that were replaced
    typer.echo(f"{home.archive}: {home.archive.stat().st_size >> 20} MB of classes; Spark starts quicker from now on")


def _end_of_jvm() -> None:
    gateway = SparkContext._gateway
    session = SparkContext._active_spark_context
    if session is not None:
        session.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_S)
    except subprocess.TimeoutExpired as error:
        gateway.proc.kill()
        raise SparkUnavailable(f"Java did not end within {_END_S:g} s: nothing was kept") from error
