"""`kigen warm`: runs a small app once and keeps the classes that its JVM loaded. Later starts of Spark take about half
the time."""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer

from kigen.engine import Engine
from kigen.spark.session.spark_home import spark_home
from kigen.spark.session.start import SparkUnavailable, start_session, uses_kigen_home
from kigen.spark.session.stop import stop_jvm

_JVM_END_S = 120.0  # the JVM writes the class archive while it ends
_APP = """
CREATE STREAM a (x BIGINT)
  FROM synthetic (rate = 50, seed = 1, duration = '5 s', start = '2026-01-01T00:00:00Z', x = 'zipf(1.2, 6)');
CREATE STREAM b (x BIGINT)
  FROM synthetic (rate = 50, seed = 2, duration = '5 s', start = '2026-01-01T00:00:00Z', x = 'zipf(1.2, 6)');
CREATE QUERY pairs AS SELECT a.x FROM a [RANGE 1 SECONDS], b [ROWS 5] WHERE a.x = b.x;
CREATE QUERY counts AS SELECT x, COUNT(*) AS n FROM a [RANGE 1 SECONDS] GROUP BY x;
"""


def warm_spark(again: bool) -> None:
    """Writes the class archive, or does nothing if there is one and `again` is not set. Raises SparkUnavailable."""
    home = spark_home()
    if home is None:
        raise SparkUnavailable(
            "a class archive needs Java and a cache directory that can be written; set XDG_CACHE_HOME to name another"
        )
    if home.archive.exists() and not again:
        typer.echo(f"already there: {home.archive}")
        return
    if not uses_kigen_home():
        raise SparkUnavailable(
            "SPARK_HOME or PYSPARK_PYTHON is set: Spark starts from there and does not use a class archive"
        )
    # If this process ends early, the temporary folder is gone and the JVM has nowhere to write.
    with tempfile.TemporaryDirectory(dir=home.folder) as folder:
        app, archive = Path(folder) / "warm.cql", Path(folder) / "classes.jsa"
        app.write_text(_APP, encoding="utf-8")
        with Engine(start_session(archive=archive)) as engine:
            engine.run(app, drain=True)
        stop_jvm(_JVM_END_S)
        if not archive.exists():
            raise SparkUnavailable("this Java writes no class archive; Spark works, and starts as slowly as before")
        archive.replace(home.archive)
    for old in home.folder.glob("classes-*.jsa"):
        if old != home.archive:
            old.unlink()  # made by another Java, or from jars that were replaced
    typer.echo(f"{home.archive}: {home.archive.stat().st_size >> 20} MB of classes; Spark starts faster from now on")
