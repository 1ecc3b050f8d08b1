"""One run of an app: takes the checkpoint, starts the pipeline, ends it in good order, and reports what it did.

Invariant: whatever ends a run, its outputs are closed at the end of a batch and the checkpoint is free again.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kigen.connectors import InputError
from kigen.connectors.changes_log import ChangesLog
from kigen.connectors.pushed import Pushed
from kigen.durable import DamagedFile, make_directories, rotate_log
from kigen.engine.changes.app_of_run import AppOfRun
from kigen.engine.changes.changeable_run import ChangeableRun
from kigen.engine.changes.live import LiveChanges, ReadApp
from kigen.engine.changes.planned import PlannedChange
from kigen.engine.checkpoint.key_secret import key_secret, run_name
from kigen.engine.checkpoint.owner import Owner
from kigen.engine.checkpoint.savepoint import arrive
from kigen.engine.errors import ArgumentError, RunFailed, SparkDied
from kigen.engine.followed import open_changes, with_changes
from kigen.engine.ingest import Ingest, all_told, open_ingest
from kigen.engine.options import RunOptions
from kigen.engine.preparation import (
    Links,
    name_runs,
    open_outputs,
    run_spec,
    start_error,
    warn_of_slow_disk,
    with_lines,
)
from kigen.engine.progress import Progress, ProgressThread, QueryProgress
from kigen.engine.result import RunResult, report_of
from kigen.engine.subscription import Change, Subscription
from kigen.engine.tables import Tables, failure_of
from kigen.engine.worker_monitor import WorkerMonitor, fraction_of
from kigen.lifetimes import EvaluationError
from kigen.plan.logical import App, Query
from kigen.plan.paths import conflicts
from kigen.queue import QueueError
from kigen.spark.admission.stand import is_settled
from kigen.spark.dataframes.feeds import FrameFeeds, spark_streams
from kigen.spark.dataframes.writer_sink import SparkWriterSink
from kigen.spark.pipeline import Pipeline, warm_up
from kigen.spark.session.error_cause import error_cause
from kigen.spark.session.start import jvm_pid, log_path, sync_files
from kigen.spark.sink.batch_sink import BatchSink
from kigen.spark.sink.metrics import Histogram
from kigen.spark.spec import RunSpec
from kigen.spark.watch import worker_deaths
from kigen.spark.watch.memory import MemoryLimitReached

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_POLL_S, _LIVE_POLL_S = 0.02, 0.2  # between two looks at a drain, which should end soon, and at a live run
_ROTATE_EVERY_S = 5.0  # how often the size of Spark's log is checked
_STARTING_S = 120.0  # for Spark to ask for the first batch
_ENDING_S = 4.0  # for the end of an epoch, when a run is stopped
_SETTLING_S = 300.0  # for the end of an epoch, before a change of the app
_QUIET_LOOKS = 5  # looks without a planned batch, before the pipeline is stopped for a change
_CLOSING_S = 120.0  # for the last rows, after duration_s
_USER_ERRORS = (InputError, EvaluationError, MemoryLimitReached, OSError, DamagedFile, QueueError)


class Run(ChangeableRun):
    """A run that `Engine.start` has started, or that `Engine.prepare` has prepared.

    Preparing needs no Spark: wrong inputs are found first, and a finished checkpoint is left as it is.

    Attributes:
        app: The plan that runs.
        options: The options of the run.
        notify: Function that receives warnings for the user while the run is active. Default: a log message.
        ingest: Queues of pushed streams; None if the app has none.
        followed: Changes and current relation of each query, if `keep_changes_s` is set.
        changes: Changes the app while the run goes on.
    """

    def __init__(self, app: App, options: RunOptions, links: Links | None = None, read: ReadApp | None = None) -> None:
        """`read` reads other apps for the run, as `app` was read; None: the app cannot change."""
        self.app, self.options, self._links, self._read = app, options, links, read
        self.changes = LiveChanges(self, read)
        self._change_lock, self._parts_lock = threading.RLock(), threading.RLock()
        self._is_changing, self._fault = False, None
        self._scratch = Path(tempfile.mkdtemp(prefix="kigen-"))
        self._checkpoint = Path(options.checkpoint).absolute() if options.checkpoint else self._scratch / "checkpoint"
        self._results = self._checkpoint / "results" if options.keep_results else None
        self._owner = Owner(self._checkpoint)
        self._pipeline: Pipeline | None = None
        self._spark: SparkSession | None = None
        self._began = self._rotated = time.monotonic()
        self._result: RunResult | None = None
        self._flowing = self._closing = False
        self.notify: Callable[[str], None] = logging.getLogger("kigen").warning
        self._monitor = WorkerMonitor(str(self._scratch), str(options.memory), lambda text: self.notify(text))
        self._progress_thread: ProgressThread | None = None
        self.ingest: Ingest | None = None
        self._tables: Tables | None = None
        self.followed: dict[str, ChangesLog] = {}
        self.frames: Mapping[str, DataFrame] = {}  # streaming DataFrames that feed streams, by name
        self._feeds: FrameFeeds | None = None
        try:
            self._prepare()
        except BaseException:
            self._close_ingest()
            self._owner.release()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def _prepare(self) -> None:
        options = self.options
        output = None if options.output is None else str(Path(options.output).absolute())
        for _, wrong in conflicts(self.app, output):  # an app file was checked already; a plan made by hand was not
            raise ArgumentError(wrong)
        self._sync = options.syncs and options.checkpoint is not None
        make_directories(self._checkpoint, options.syncs)
        self._owner.acquire()
        may_change = not options.no_change and (self._links is None or self._links.may_change)
        self._output = output
        self._app_of_run = AppOfRun(self._checkpoint, options, output, may_change, self._sync, self._read_text())
        self.app = self._app_of_run.load(self._given(self.app), self._spec_of)
        if self._sync:
            warn_of_slow_disk(self._checkpoint)
        self._open()

    def _read_text(self) -> Callable[[str], App] | None:
        """Returns what reads the text of an app for this run, or None."""
        read, directory = self._read, self.app.directory
        return None if read is None else lambda text: self._given(read(text=text, base=directory))

    def _given(self, app: App) -> App:
        """Returns the app with all that the outputs of this run take."""
        if self._output is not None or self._results is not None:
            app = with_lines(app)
        return app if self.options.keep_changes_s is None else with_changes(app)

    def _spec_of(self, app: App) -> RunSpec:
        access = None if self._links is None else self._links.access
        return run_spec(app, self.options, self._checkpoint, self._scratch, access)

    def _open(self, keep_ingest: bool = False) -> None:
        """Opens inputs and outputs of the app. `keep_ingest`: the queues of pushed streams are open."""
        options, record, output = self.options, self._app_of_run.record, self._output
        self.app = replace(self.app, secret=key_secret(self._checkpoint, self._sync))
        if not keep_ingest:
            self.ingest = open_ingest(
                self.app, self._checkpoint, self._scratch, self._sync, options.drain, options.checkpoint is not None
            )
        self._spec = replace(
            self._spec_of(self.app),
            starts=record.starts,
            begun_us=record.begun_us,
            change=record.change,
            dropped=record.dropped,
        )
        if self.ingest is not None:
            self._spec = replace(self._spec, ingest=self.ingest.access, queue_bytes=self.ingest.queue_bytes)
        self._sources = self._spec.sources(started_us=0)
        self._tables = Tables(self.app, self._checkpoint, self._sync, options.drain)
        for source in self._sources.values():
            source.initial()
        outputs = open_outputs(self.app, output, self._results, self._links)
        followed: dict[str, ChangesLog] = {}
        if options.keep_changes_s is not None:
            followed = open_changes(self.app, self._checkpoint, options.keep_changes_s, outputs)
        arrive(self._checkpoint, outputs, self._sync)
        self._sink = BatchSink(self._spec, outputs)
        name_runs(self._sink.outputs, run_name(self.app.secret), options.syncs)
        self._sink.on_commit = all_told(
            None if self._links is None else self._links.on_commit,
            None if self.ingest is None else self.ingest.resumed(self._sink.record.positions),
            self._tables.committed,
        )
        self._sink.on_epoch = None if self._links is None else self._links.on_epoch
        self._sink.open()
        self.followed = followed  # readers may look at once

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether all streams have ended and every row is written."""
        return self._app_of_run.pending is None and self._sink.finished

    @property
    def last_change(self) -> PlannedChange | None:
        """The last change of the app that this run has made, for messages."""
        return self._app_of_run.last

    @property
    def change_is_pending(self) -> bool:
        """Whether a batch or epoch of the app before its change has to be finished first."""
        return self._app_of_run.pending is not None

    @property
    def continues_changed(self) -> bool:
        """Whether the run continues an app that was changed while an earlier run went on, and that was started with the
        same app as this one."""
        return self._app_of_run.continues_changed

    def begin(self, spark: SparkSession, ready: Callable[[], None] | None = None, warmed: bool = False) -> None:
        """Starts the pipeline, unless the checkpoint is finished.

        `ready` is called when Spark is warm and only the streams are missing; it may wait for other nodes. `warmed`
        means that Spark is warm already.
        """
        self._spark = spark
        if self._app_of_run.pending is not None:
            self._finish_old_app(spark)
        self._begin(spark, ready, warmed)
        if self.options.on_progress is not None:
            every_s = self.options.progress_every_s
            self._progress_thread = ProgressThread(self.options.on_progress, lambda: self.progress, every_s)

    def _begin(self, spark: SparkSession, ready: Callable[[], None] | None = None, warmed: bool = False) -> None:
        for sink in (sink for pairs in self._sink.outputs.values() for _, sink in pairs):
            if isinstance(sink, SparkWriterSink):
                sink.spark = spark
        if not self.finished:
            self._owner.add_jvm(jvm_pid(spark))
            try:
                self._start_pipeline(spark, ready, warmed)
            except InputError:
                raise
            except Exception as error:
                raise start_error(error, "Spark did not start the run") from error
        if self.ingest is not None:
            self.ingest.start(lambda text: self.notify(text))

    def _finish_old_app(self, spark: SparkSession) -> None:
        """Finishes the batch or epoch in which the old app was stopped, then changes the app."""
        declared = self._app_of_run.pending
        assert declared is not None
        self._owner.add_jvm(jvm_pid(spark))
        self._sink.scratch.stop_epochs()
        try:
            self._sink.spark_syncs = sync_files(spark, self._spec.syncs)
            self._sink.start_clock()
            self._pipeline = Pipeline(spark, self._spec, self._sink)
            self._settle(spark)
        except RunFailed:
            raise
        except Exception as error:
            raise start_error(error, "Spark did not finish the batch of the app before its change") from error
        refused = self._switch(declared, self.options.replay_us)
        if refused is not None:
            raise refused

    def _settle(self, spark: SparkSession) -> None:
        """Ends the pipeline when Spark has committed all that is planned."""
        self._sink.scratch.stop_epochs()
        until = time.monotonic() + _SETTLING_S
        while True:
            assert self._pipeline is not None
            quiet = 0
            while self._pipeline.active and quiet < _QUIET_LOOKS and time.monotonic() < until:
                quiet = quiet + 1 if is_settled(self._checkpoint) and not self._sink.has_open_epoch else 0
                time.sleep(_POLL_S)
            failure = self._pipeline.failure()
            self._pipeline.stop()
            if failure is not None or time.monotonic() >= until:
                self._raise(failure or f"the epoch did not end within {_SETTLING_S:g} s")
            if is_settled(self._checkpoint):
                return
            self._sink.align()
            self._pipeline = Pipeline(spark, self._spec, self._sink)

    def _start_pipeline(self, spark: SparkSession, ready: Callable[[], None] | None, warmed: bool) -> None:
        self._sink.spark_syncs = sync_files(spark, self._spec.syncs)
        if not warmed and (self._live or any(q.deadline_us is not None for q in self.app.queries)):
            warm_up(spark, self._spec)
        assert self._tables is not None
        self._tables.start(spark, self.frames, lambda text: self.notify(text))
        self._sink.start_clock()
        self._pipeline = Pipeline(spark, self._spec, self._sink, ready)
        if ready is not None:
            self._sink.start_clock()  # it may have waited for other nodes
        if not self._flowing:
            self._began = time.monotonic()
        if self.ingest is not None and spark_streams(self.app):
            self._feeds = FrameFeeds(self.ingest.push_rows, self._checkpoint)
            self._feeds.start(spark, self.app, self.frames)

    @property
    def _live(self) -> bool:
        return any(source.live for source in self._sources.values())

    @property
    def active(self) -> bool:
        """Whether the run has not ended. Each call also does what is due: it checks the workers' memory and the log."""
        if time.monotonic() - self._rotated > _ROTATE_EVERY_S:
            self._rotated = time.monotonic()
            rotate_log(log_path())
        self._monitor.check()
        if self._is_changing:
            return True
        if (
            self._fault is not None
            or self._monitor.limit_error is not None
            or (self.ingest is not None and self.ingest.error is not None)
        ):
            return False
        if self._feeds is not None and self._feeds.failure() is not None:
            return False
        if failure_of(self._tables) is not None:
            return False
        if self._pipeline is None or not self._pipeline.seems_active or (self.finished and not self.options.drain):
            return False
        limit = self.options.duration_s
        if limit is None or self._flowed_s() < limit:
            return True
        if self.options.checkpoint is not None or self.options.drain:
            return False  # the next run on the checkpoint continues from here
        if not self._closing:  # no run continues from here: end the streams, so that the last rows come out
            self._closing = True
            self._sink.scratch.close_streams()
        return self._flowed_s() < limit + _CLOSING_S

    def _flowed_s(self) -> float:
        """Returns how long the streams have flowed. Spark needs seconds before it asks for the first batch."""
        now = time.monotonic()
        if not self._flowing:
            if not self._sink.scratch.reading and now - self._began < _STARTING_S:
                return 0.0
            self._flowing, self._began = True, now
        return now - self._began

    @property
    def look_every_s(self) -> float:
        """How often to ask whether the run is active. Each look costs a tenth of a millisecond of CPU."""
        return _LIVE_POLL_S if self._live else _POLL_S

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Waits until the run has ended by itself; returns False if `timeout_s` is over first.

        The caller must call `stop` afterwards, for the result.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self.active:
            left_s = self.look_every_s if until is None else until - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(left_s, self.look_every_s))
        return True

    def stop(self) -> RunResult:
        """Ends the run, if it has not ended, and returns the result. Raises the error that ended the run, if any."""
        with self._change_lock:
            return self._stop()

    def _stop(self) -> RunResult:
        if self._result is not None:
            return self._result
        try:
            fed_wrongly = None if self._feeds is None else self._feeds.failure()
            if self._feeds is not None:
                self._feeds.stop()
            failure = self._stop_pipeline()
            if fed_wrongly is not None and failure is None:
                self._sink.close()
                raise RunFailed(fed_wrongly)
            self._sink.close()
            self._raise(failure)
        except BaseException:
            self._close_progress()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        finally:
            self._close_ingest()
            self._owner.release()
        self._close_progress()
        wall_us = self._sink.metrics.wall_us if self._pipeline is None else self._sink.wall_us
        report = report_of(
            self.app, self.options, self._sink.metrics, wall_us / 1e6, self._sink.scratch.policy_report()
        )
        self._result = RunResult(self.app, report, self.finished, self._results, self._spark, self._scratch)
        return self._result

    def _stop_pipeline(self) -> str | None:
        """Returns Spark's message if the pipeline has failed."""
        if self._pipeline is None:
            return None
        if self._pipeline.lanes and self._monitor.limit_error is None:
            self._end_epoch()
        ended = not self._pipeline.active
        failure = self._pipeline.failure()
        self._sink.interrupt()  # otherwise Spark would wait for a batch that waits for other nodes
        self._pipeline.stop()
        if ended and failure is None and not self.finished:
            return "it came to an end before the inputs did"
        return failure

    @property
    def flows(self) -> bool:
        """Whether Spark asks for batches and the run has not ended."""
        pipeline = self._pipeline
        if pipeline is None or self._is_changing or self._result is not None:
            return False
        return pipeline.active and self._sink.scratch.reading

    @property
    def serve_folder(self) -> Path:
        """Where a server of this run keeps its token: below the checkpoint, or temporary without one."""
        return self._checkpoint / "serve"

    def report_so_far(self) -> dict[str, Any]:
        """Returns the report of the committed batches. It may be called from any thread."""
        with self._parts_lock:
            policy = self._sink.scratch.policy_report()
            with self._sink.lock:
                return report_of(self.app, self.options, self._sink.metrics, self._sink.wall_us / 1e6, policy)

    def latency_histograms(self) -> dict[str, Histogram]:
        """Returns the latencies of the committed batches, per query. It may be called from any thread."""
        with self._parts_lock, self._sink.lock:
            return {name: counts.latency.copy() for name, counts in self._sink.metrics.queries.items()}

    def _close_ingest(self, keep: bool = False) -> None:
        """Closes tables and queues. `keep`: senders go on pushing, since their streams stay as they are."""
        if self._tables is not None:
            self._tables.close()
        if self.ingest is not None and not keep:
            self.ingest.close()

    def _end_epoch(self) -> None:
        """Ends the round and the epoch, so that the next run need not make its rounds again. Waits a little for it."""
        assert self._pipeline is not None
        self._sink.scratch.stop_epochs()
        until = time.monotonic() + _ENDING_S
        while time.monotonic() < until and self._pipeline.active and not self._sink.epoch_committed:
            time.sleep(_POLL_S)

    def _close_progress(self) -> None:
        if self._progress_thread is not None:
            self._progress_thread.close()

    def _raise(self, failure: str | None) -> None:
        if self._fault is not None:
            raise self._fault
        if self._monitor.limit_error is not None:
            raise self._monitor.limit_error
        if self.ingest is not None and self.ingest.error is not None:
            raise self.ingest.error
        fallen = failure_of(self._tables)
        if fallen is not None:
            raise fallen
        if failure is None:
            return
        error = self._sink.error or self._sink.scratch.error()
        if isinstance(error, _USER_ERRORS):
            raise error
        died = self._describe_death(f"{error} {failure}")
        if died is not None:
            again = "" if self.options.checkpoint is None else f"; the same command continues from {self._checkpoint}"
            raise SparkDied(died + again) from error
        raise RunFailed(f"Spark ended the run: {error_cause(error or failure)} (Spark's log: {log_path()})") from error

    def _describe_death(self, failure: str) -> str | None:
        """Returns a sentence on the process of Spark that died, and why; None if none died."""
        if self._pipeline is not None and self._pipeline.lost:
            return worker_deaths.describe_java_death(log_path(), self._monitor.killed_for_memory)
        named = self._monitor.describe_death(failure)
        if named is None and worker_deaths.is_worker_death(failure):
            return f"a Python worker of Spark ended unexpectedly: {error_cause(failure)} (Spark's log: {log_path()})"
        return named

    def push(self, stream: str, rows: Iterable[Mapping[str, Any]] | pa.Table, key: str | None = None) -> Pushed:
        """Pushes rows to a stream `FROM http ()`: all of them or none. Returns when they are durable.

        `key` makes a repeated push safe: a batch is taken once per key. Raises InputError for a bad row, and IngestFull
        while BUFFER or the queue has no room.
        """
        if self.ingest is None:
            raise ArgumentError("no stream of the app is pushed: declare one with FROM http ()")
        return self.ingest.push_rows(stream, rows, key)

    def subscribe(self, query: str) -> Subscription:
        """Follows the changes of a query: the rows that are true now, then every change as it is committed.

        Needs `keep_changes_s`. See `kigen.engine.subscription`.
        """
        self._followed(query)
        return Subscription(lambda: self.followed.get(query), lambda: self._result is None and self.active)

    def current(self, query: str) -> list[Change]:
        """Returns the rows of a query that are true now. Needs `keep_changes_s`."""
        log = self._followed(query)
        return Subscription(lambda: log, lambda: False).relation()

    def _followed(self, query: str) -> ChangesLog:
        if not self.followed:
            raise ArgumentError("the run keeps no changes: start it with keep_changes_s=600")
        if query not in self.followed:
            raise ArgumentError(f"there is no query '{query}': use one of {', '.join(self.followed)}")
        return self.followed[query]

    # --- what it did -----------------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """The progress of the run now. It may be read from any thread."""
        with self._parts_lock:
            return self._progress()

    def _progress(self) -> Progress:
        positions, scratch = self._sink.record.positions, self._sink.scratch
        fraction = fraction_of(self._sources, positions)
        running = None if self._pipeline is None else self._monitor.running_batch(scratch.committed().seq)
        if fraction is not None and running is not None:
            after = fraction_of(self._sources, {**positions, **running.positions}) or fraction
            fraction += running.share * max(0.0, after - fraction)
        policy = scratch.policy_report()
        waiting = {q.name: policy.get("waiting", {}).get(task.name) for task in self._spec.tasks for q in task.queries}
        with self._sink.lock:
            queries = {q.name: self._query_progress(q, waiting[q.name]) for q in self.app.queries}
        batches, overloaded = self._sink.metrics.batches, bool(policy.get("overload"))
        known = Progress(fraction, batches, queries, self._live, self._spec.policy, policy.get("k"), overloaded)
        if running is not None:
            known = replace(known, doing=running.doing, read=running.read, reached_us=running.reached_us)
        elif self._pipeline is not None and not known.batches:
            known = replace(known, doing="starting the first batch")
        return replace(known, memory=self._monitor.used)

    def _query_progress(self, query: Query, waiting: int | None) -> QueryProgress:
        counts = self._sink.metrics.queries[query.name]
        deadline_ms = None if query.deadline_us is None else query.deadline_us / 1000
        p95_ms = counts.latency.quantile_ms(0.95)
        return QueryProgress(counts.arrived, counts.out, waiting, p95_ms, deadline_ms, counts.sdmr)

    @property
    def commits(self) -> list[tuple[float, int]]:
        """For each durable batch, its time in monotonic seconds and the tuples processed by then; for measurements."""
        return list(self._sink.commits)

    @property
    def spark_progress(self) -> list[dict[str, Any]]:
        """What Spark reports on its last few batches."""
        return [] if self._pipeline is None else self._pipeline.progress()

    @property
    def skipped(self) -> dict[str, list[str]]:
        """For each stream, the first rows that ON ERROR SKIP left out."""
        return self._sink.record.skipped
