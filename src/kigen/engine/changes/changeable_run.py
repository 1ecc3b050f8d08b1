"""The part of a run that changes its app, or saves it, while the run goes on: between two epochs.

The streaming query ends with the epoch, the work is done while nothing of the checkpoint is open, and a new streaming
query of the same Spark session goes on. Invariant: a change that is refused leaves the app as it was, and running. What
ends the run on the way is raised by `Run.stop`, too. Cost: all queries wait for the restart of the streaming query.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kigen.connectors import InputError
from kigen.engine.changes.app_of_run import AppOfRun
from kigen.engine.changes.live import AppChange, LiveChanges
from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
from kigen.engine.checkpoint.savepoint import write_savepoint
from kigen.engine.errors import ArgumentError, RunFailed
from kigen.engine.ingest import pushed_streams
from kigen.engine.options import RunOptions
from kigen.engine.preparation import Links
from kigen.language.expansion import Value
from kigen.plan.logical import App
from kigen.spark.dataframes.feeds import FrameFeeds
from kigen.spark.pipeline import Pipeline
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.spec import RunSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.005
_RESUMING_S = 60.0  # for Spark to ask for the first batch after a change
_REFUSALS = (ArgumentError, CheckpointMismatch, InputError, OSError)  # of a change: the old app goes on


class ChangeableRun:
    """What `kigen.engine.Run` can do with its app while it goes on."""

    app: App
    options: RunOptions
    changes: LiveChanges
    _links: Links | None
    _checkpoint: Path
    _app_of_run: AppOfRun
    _sink: BatchSink
    _pipeline: Pipeline | None
    _spark: SparkSession | None
    _feeds: FrameFeeds | None
    _change_lock: threading.RLock  # held while the app changes, and by what must not meet a change
    _parts_lock: threading.RLock  # held while the parts of one app are replaced by those of another
    _is_changing: bool
    _fault: Exception | None  # what ended the run in the middle of a change

    @property
    @abstractmethod
    def active(self) -> bool: ...

    @abstractmethod
    def _given(self, app: App) -> App: ...

    @abstractmethod
    def _spec_of(self, app: App) -> RunSpec: ...

    @abstractmethod
    def _open(self, keep_ingest: bool = False) -> None: ...

    @abstractmethod
    def _begin(self, spark: SparkSession, ready: Callable[[], None] | None = None, warmed: bool = False) -> None: ...

    @abstractmethod
    def _settle(self, spark: SparkSession) -> None: ...

    @abstractmethod
    def _close_ingest(self, keep: bool = False) -> None: ...

    def _switch(self, declared: App, replay_us: int | None, while_running: bool = False) -> Exception | None:
        """Changes the app while nothing runs, and opens what the new one needs. Returns why the change is refused: then
        the old app is open again."""
        keep = while_running and pushed_streams(declared) == pushed_streams(self.app)
        return self._closed(
            lambda: self._app_of_run.change(declared, self._spec_of, replay_us, while_running), declared, keep
        )

    def _closed(self, work: Callable[[], object], declared: App, keep_ingest: bool) -> Exception | None:
        """Works on the checkpoint while nothing of it is open. Returns why the work is refused."""
        commits, refused = self._sink.commits, None
        self._pipeline = None
        self._sink.close()
        self._close_ingest(keep_ingest)
        try:
            work()
        except _REFUSALS as error:
            refused = error
        self._sink.scratch.start_anew()
        self.app = self._app_of_run.record.app(declared if refused is None else self.app)
        self._open(keep_ingest)
        self._sink.commits.extend(commits)
        return refused

    def change_to(self, declared: App, replay_us: int | None = None, plan: bool = False) -> AppChange:
        """Changes the app of this run at the end of an epoch. `plan`: only says what would change.

        The process and Spark go on; all queries wait from the end of the epoch to the start of the next one. May be
        called from any thread. Raises ArgumentError, CheckpointMismatch or InputError if the change is refused: then
        the app goes on as it is. Killed on the way, the next run finds the app before the change or after it.
        """
        with self._change_lock:
            declared = self._given(declared)
            self._require_changeable()
            planned = self._app_of_run.plan(declared, replay_us)
            same = self._app_of_run.is_same(planned)
            self._app_of_run.try_out(planned, self._spec_of)
            if plan:
                return AppChange.of(planned, False, 0.0)
            if same:
                self._app_of_run.take_text(declared)
                self.app = replace(self.app, text=declared.text, functions=declared.functions)
                return AppChange.of(planned, True, 0.0)
            paused_s = self._between_epochs(lambda: self._switch(declared, replay_us, while_running=True))
            return AppChange.of(planned, True, paused_s)

    def save(self, to: str | Path) -> dict[str, Any]:
        """Saves the app at the end of an epoch: writes a folder from which `checkpoint=` of another run continues.

        All queries wait while the checkpoint is copied. Files that the app reads, and outputs, are not in the folder.
        Returns what `savepoint.json` in the folder says, and `paused_s`.

        Args:
            to: The folder. It must not exist.

        Raises:
            ArgumentError: The run has ended, or the folder exists.
        """
        with self._change_lock:
            self._require_running()
            about: dict[str, Any] = {}

            def copy() -> None:
                about.update(write_savepoint(self._checkpoint, Path(to).absolute()))

            if os.path.lexists(to):
                raise ArgumentError(f"{to} exists: name a folder that does not")
            paused_s = self._between_epochs(lambda: self._closed(copy, self.app, keep_ingest=False))
            return {**about, "paused_s": round(paused_s, 3)}

    def _require_changeable(self) -> None:
        if self._links is not None:
            raise ArgumentError("a node cannot change its app: placement and links of all nodes would have to change")
        if self.options.no_change:
            raise ArgumentError("this run was started with --no-change: its app cannot change")
        self._require_running()

    def _require_running(self) -> None:
        if self._spark is None or self._pipeline is None or not self.active:
            raise ArgumentError("the run does not go on: it has not begun, or it has ended")

    def _between_epochs(self, work: Callable[[], Exception | None]) -> float:
        """Ends the epoch, works, and goes on. `work` returns why it is refused. Returns for how many seconds no tuple
        was processed."""
        self._is_changing = True
        try:
            paused_s, refused = self._pause(work)
        except Exception as error:
            self._fault = error
            raise
        finally:
            self._is_changing = False
        if refused is not None:
            raise refused
        return paused_s

    def _pause(self, work: Callable[[], Exception | None]) -> tuple[float, Exception | None]:
        spark = self._spark
        assert spark is not None
        if self._feeds is not None:
            self._feeds.stop()
            self._feeds = None
        self._settle(spark)
        stopped_at = self._sink.commits[-1][0] if self._sink.commits else time.monotonic()
        try:
            with self._parts_lock:
                refused = work()
                self._begin(spark, warmed=True)
        except _REFUSALS as error:  # the app could not be opened again
            raise RunFailed(f"the run ended in the middle of a change: {error}") from error
        until = time.monotonic() + _RESUMING_S
        while not self._sink.scratch.reading and time.monotonic() < until:
            if self._pipeline is None or not self._pipeline.active:
                break
            time.sleep(_POLL_S)
        return time.monotonic() - stopped_at, refused

    def add(
        self,
        text: str,
        *,
        params: Mapping[str, Value] | None = None,
        replay_from: str | datetime | None = None,
        plan: bool = False,
    ) -> AppChange:
        """Adds statements to the app while the run goes on. Other queries wait for the gap between two epochs.

        Args:
            text: Statements, such as CREATE QUERY. They may read what the app declares.
            params: Values of parameters (`$name`) in the text.
            replay_from: Time from which added queries see tuples, where the sources keep them. Default: now.
            plan: Changes nothing, and returns what would change.

        Raises:
            CqlErrors: The statements have errors.
            ArgumentError: The run has ended, or the change is not possible.
            InputError: An input of the added queries is missing.
        """
        return self.changes.add(text, params, replay_from, plan)

    def drop(self, *queries: str, plan: bool = False) -> AppChange:
        """Drops queries while the run goes on. Their state goes, their output stays.

        Args:
            queries: Names of queries.
            plan: Changes nothing, and returns what would change.

        Raises:
            ArgumentError: There is no such query, or another one reads it.
        """
        return self.changes.drop(queries, plan)

    def change(
        self,
        app: str | Path | App | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
        replay_from: str | datetime | None = None,
        plan: bool = False,
    ) -> AppChange:
        """Gives this run another app while it goes on: what is the same is kept, the rest is dropped or added.

        Args:
            app: Path of the app file.
            text: The app itself, instead of a file.
            base: Directory at which relative paths in `text` start. Default: that of the running app.
            params: Values of the app's parameters (`$name`), by name.
            replay_from: Time from which added queries see tuples, where the sources keep them. Default: now.
            plan: Changes nothing, and returns what would change.

        Raises:
            CqlErrors: The app has errors.
            ArgumentError: The run has ended, or the change is not possible.
            InputError: An input of the added queries is missing.
        """
        return self.changes.change(app, text, base, params, replay_from, plan)
