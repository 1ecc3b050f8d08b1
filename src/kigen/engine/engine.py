"""`kigen.Engine`: what the command and users of the library call."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from kigen.engine.options import RunOptions
from kigen.engine.result import RunResult
from kigen.engine.run import Run
from kigen.plan import load_app
from kigen.plan.logical import App
from kigen.spark.session.start import start_session


class Engine:
    """Runs apps on a SparkSession: the user's, or one that is started when first needed and ended by `close`.

    >>> with Engine() as engine:                                        # doctest: +SKIP
    ...     result = engine.run("rooms.cql")
    ...     result.dataframe("hot").show()
    """

    def __init__(self, spark: Any = None, master: str | None = None) -> None:
        self._spark, self._master, self._ours = spark, master, spark is None

    @property
    def spark(self) -> Any:
        if self._spark is None:
            self._spark = start_session(self._master)
        return self._spark

    def start(self, app: str | Path | App, **options: Any) -> Run:
        """Start a run and return at once. `options` are those of RunOptions: drain, output, checkpoint, lifetime,
        policy, duration_s ..."""
        run = self.prepare(app, **options)
        try:
            run.begin(self.spark)
        except BaseException:
            run.stop()
            raise
        return run

    def run(self, app: str | Path | App, **options: Any) -> RunResult:
        """Run to the end: of the inputs when draining, else of all streams or of `duration_s`."""
        run = self.start(app, **options)
        try:
            run.await_end()
        finally:
            result = run.stop()
        return result

    def prepare(self, app: str | Path | App, **options: Any) -> Run:
        """Everything of a run that needs no Spark: reads the app, checks inputs, takes the checkpoint."""
        loaded = app if isinstance(app, App) else load_app(str(app), options.get("output"))
        return Run(loaded, RunOptions(**options))

    def close(self) -> None:
        if self._ours and self._spark is not None:
            with suppress(Exception):  # its JVM may be dead already
                self._spark.stop()
            self._spark = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
