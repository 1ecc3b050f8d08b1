"""One run of an app: takes the checkpoint, starts the pipeline, ends it in good order, and says what it did.

Invariant: whatever ends a run, its outputs are closed at a batch's end and the checkpoint is free again.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kigen.connectors import InputError, Sink, open_sink
from kigen.durable import DamagedFile, make_directories, rotate_log, slow_disk
from kigen.engine.checkpoint.fingerprint import check_or_write, fingerprint
from kigen.engine.checkpoint.key_secret import key_secret
from kigen.engine.checkpoint.owner import Owner
from kigen.engine.options import ArgumentError, RunOptions
from kigen.engine.overseer import Overseer, fraction_of
from kigen.engine.result import Progress, QueryProgress, RunResult, report_of
from kigen.lifetimes import EvaluationError
from kigen.plan.logical import App, Connector, Query
from kigen.plan.paths import conflicts
from kigen.queue import QueueError
from kigen.spark.links.link_source import Access
from kigen.spark.operator.dropped_tuples import shed_output_name
from kigen.spark.pipeline import Pipeline, is_process_death, warm_up
from kigen.spark.session.start import gist, jvm_pid, log_path, sync_files
from kigen.spark.sink.batch_sink import BatchSink, Outputs
from kigen.spark.sink.results import results_sink
from kigen.spark.spec import RunSpec, rows_within, sliced_tasks
from kigen.spark.watch import worker_deaths
from kigen.spark.watch.memory import MemoryLimitReached

_log = logging.getLogger(__name__)
_POLL_S = 0.02
_LOG_S = 5.0  # how often to look whether Spark's log has become too long
_CLOSING_S = 120.0  # for the last lines, after --duration


class RunFailed(RuntimeError):
    """Spark, or a fault of Kigen's, ended the run: exit code 1."""


class SparkDied(RunFailed):
    """Spark's JVM or one of its Python workers was killed: nothing is wrong with the run, and started again it goes
    on."""


@dataclass(frozen=True)
class Links:
    """What ties a run to other nodes: where received streams are read, where sent ones go, who hears what a replay may
    still ask for."""

    access: Access
    sinks: dict[str, Sink]
    on_commit: Callable[[dict[str, int], dict[str, int]], None]  # and how far each stream is worked off


def warn_of_slow_disk(folder: Path) -> None:
    """Of a disk that every acknowledgement would wait for."""
    told = slow_disk(folder)
    if told is not None:
        _log.warning("warning: %s", told)


def warm(spark: Any, app: App, options: RunOptions, access: Access) -> None:
    """Spark made ready for a run of this app that may begin later: without a checkpoint, inputs or outputs."""
    with tempfile.TemporaryDirectory(prefix="kigen-") as scratch:
        try:
            warm_up(spark, _spec(app, options, Path(scratch), Path(scratch), access))
        except Exception as error:
            if is_process_death(error):
                raise SparkDied(
                    f"Spark was killed while it started: {gist(error)} (Spark's log: {log_path()})"
                ) from error
            raise RunFailed(f"Spark did not start: {gist(error)} (Spark's log: {log_path()})") from error


def _spec(app: App, options: RunOptions, checkpoint: Path, scratch: Path, access: Access | None) -> RunSpec:
    return RunSpec(
        app=app,
        run_id=uuid.uuid4().hex,
        checkpoint=str(checkpoint),
        scratch=str(scratch),
        draining=options.drain,
        lifetime=options.lifetime,
        policy=options.scheduling[0],
        settings=replace(options.scheduling[1], may_drop=not options.drain),
        batch_rows=min(options.batch_rows, rows_within(str(options.memory))),
        partitions=options.partitions,
        inline_bytes=options.inline_bytes,
        memory=str(options.memory),
        runtime=options.runtime,
        links=access,
        syncs=options.syncs
        and options.checkpoint is not None,  # nothing goes on from a checkpoint that is deleted in the end
    )


class Run:
    """Made by `Engine.start`. Preparing needs no Spark: wrong inputs are found first, and a finished checkpoint is left
    as it is."""

    def __init__(self, app: App, options: RunOptions, links: Links | None = None) -> None:
        self.app, self.options, self._links = app, options, links
        self._scratch = Path(tempfile.mkdtemp(prefix="kigen-"))
        self._checkpoint = Path(options.checkpoint).absolute() if options.checkpoint else self._scratch / "checkpoint"
        self._owner = Owner(self._checkpoint)
        self._pipeline: Pipeline | None = None
        self._spark: Any = None
        self._began = self._looked_at_log = time.monotonic()
        self._result: RunResult | None = None
        self._closing = False
        self.tell: Callable[[str], None] = logging.getLogger("kigen").warning  # what users should know while it runs
        self._overseer = Overseer(str(self._scratch), str(options.memory), lambda text: self.tell(text))
        try:
            self._prepare()
        except BaseException:
            self._owner.release()
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def _prepare(self) -> None:
        options = self.options
        output = None if options.output is None else str(Path(options.output).absolute())
        for _, wrong in conflicts(self.app, output):  # an app file was checked already; a plan made by hand was not
            raise ArgumentError(wrong)
        make_directories(self._checkpoint, options.syncs)
        self._owner.acquire()
        slices = sorted(sliced_tasks(self.app, options.scheduling[0], options.drain))
        mine = fingerprint(self.app, options.lifetime, options.drain, output, version("kigen"), slices)
        check_or_write(self._checkpoint, mine, options.syncs and options.checkpoint is not None)
        secret = key_secret(self._checkpoint, options.syncs and options.checkpoint is not None)
        self.app = replace(self.app, secret=secret)
        access = None if self._links is None else self._links.access
        if options.syncs and options.checkpoint is not None:
            warn_of_slow_disk(self._checkpoint)
        self._spec = _spec(self.app, options, self._checkpoint, self._scratch, access)
        self._sources = self._spec.sources(started_us=0)
        for source in self._sources.values():
            source.initial()
        self._sink = BatchSink(self._spec, self._outputs(output))
        for sinks in self._sink.outputs.values():
            for _, sink in sinks:
                sink.syncs = options.syncs
        self._sink.on_commit = None if self._links is None else self._links.on_commit
        self._sink.open()

    def _outputs(self, output: str | None) -> Outputs:
        outputs: Outputs = {}
        for query in self.app.queries:
            mine = outputs.setdefault(query.name, [])
            if output is not None and not query.sent:
                csv = Connector("csv", (("path", f"{query.name}.csv"),))
                mine.append(
                    (f"{query.name} output", open_sink(csv, query.schema, query.root.is_stream, output, query.name))
                )
            if query.sent:
                assert self._links is not None, f"{query.name} goes to another node"
                mine.append((f"{query.name} into", self._links.sinks[query.name]))
                continue
            if query.into is not None:
                into = open_sink(query.into, query.schema, query.root.is_stream, self.app.directory, query.name)
                mine.append((f"{query.name} into", into))
            if self.options.keep_results:
                mine.append((f"{query.name} results", results_sink(query, self._results)))
        for stream in self.app.streams:
            if stream.shed is not None and stream.shed.into is not None:
                into = open_sink(
                    stream.shed.into, stream.schema, True, self.app.directory, shed_output_name(stream.name)
                )
                outputs[shed_output_name(stream.name)] = [(f"{stream.name} shed", into)]
        return outputs

    @property
    def _results(self) -> Path:
        return self._checkpoint / "results"

    # --- the run ---------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """All streams have ended and every line is written."""
        return self._sink.finished

    def begin(self, spark: Any, ready: Callable[[], None] | None = None, warmed: bool = False) -> None:
        """`ready` is called when Spark is warm (`warmed`: it is already) and only the streams are missing; it may wait
        for others."""
        self._spark = spark
        if self.finished:
            return
        self._owner.add_jvm(jvm_pid(spark))
        try:
            self._sink.spark_syncs = sync_files(spark, self._spec.syncs)
            live = any(source.live for source in self._sources.values())
            if not warmed and (live or any(q.deadline_us is not None for q in self.app.queries)):
                warm_up(spark, self._spec)
            if ready is not None:
                ready()
            self._began = time.monotonic()
            self._sink.start_clock()
            self._pipeline = Pipeline(spark, self._spec, self._sink)
        except Exception as error:
            if is_process_death(error):
                raise SparkDied(
                    f"Spark was killed while it started: {gist(error)} (Spark's log: {log_path()})"
                ) from error
            raise RunFailed(f"Spark did not start the run: {gist(error)} (Spark's log: {log_path()})") from error

    @property
    def active(self) -> bool:
        """Does what is due, and says whether there is more to wait for."""
        if time.monotonic() - self._looked_at_log > _LOG_S:
            self._looked_at_log = time.monotonic()
            rotate_log(log_path())
        self._overseer.look()
        if self._overseer.verdict is not None:
            return False
        if self._pipeline is None or not self._pipeline.active or (self.finished and not self.options.drain):
            return False
        limit = self.options.duration_s
        if limit is None or time.monotonic() - self._began < limit:
            return True
        if self.options.checkpoint is not None or self.options.drain:
            return False  # the next run on the checkpoint goes on from here
        if not self._closing:  # nothing will go on from here: let the streams end, so that the last lines come out
            self._closing = True
            self._sink.scratch.close_streams()
        return time.monotonic() - self._began < limit + _CLOSING_S

    def await_end(self, timeout_s: float | None = None) -> bool:
        """Wait until the run has ended by itself or the time is over; then `stop` it for the result."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self.active:
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self) -> RunResult:
        """End the run, if it has not ended, and raise what made it fail, if something did."""
        if self._result is not None:
            return self._result
        try:
            failure = None
            if self._pipeline is not None:
                alone = not self._pipeline.active
                failure = self._pipeline.failure()
                self._sink.interrupt()  # or Spark would wait for a batch that waits for others
                self._pipeline.stop()
                if alone and failure is None and not self.finished:
                    failure = "it came to an end before the inputs did"
            self._sink.close()
            self._raise(failure)
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        finally:
            self._owner.release()
        wall_us = self._sink.metrics.wall_us if self._pipeline is None else self._sink.wall_us
        report = report_of(
            self.app, self.options, self._sink.metrics, wall_us / 1e6, self._sink.scratch.policy_report()
        )
        kept = self._results if self.options.keep_results else None
        self._result = RunResult(self.app, report, self.finished, kept, self._spark, self._scratch)
        return self._result

    def _raise(self, failure: str | None) -> None:
        if self._overseer.verdict is not None:
            raise self._overseer.verdict
        if failure is None:
            return
        error = self._sink.error or self._sink.scratch.error()
        if isinstance(error, (InputError, EvaluationError, MemoryLimitReached, OSError, DamagedFile, QueueError)):
            raise error
        died = self._death(f"{error} {failure}")
        if died is not None:
            again = "" if self.options.checkpoint is None else f"; the same command goes on from {self._checkpoint}"
            raise SparkDied(died + again) from error
        raise RunFailed(f"Spark ended the run: {gist(error or failure)} (Spark's log: {log_path()})") from error

    def _death(self, failure: str) -> str | None:
        """Which process of Spark's died, and why, in one sentence."""
        if self._pipeline is not None and self._pipeline.lost:
            return worker_deaths.describe_java_death(log_path(), self._overseer.killed_for_memory)
        named = self._overseer.death(failure)
        if named is None and worker_deaths.is_worker_death(failure):
            return f"a Python worker of Spark's ended unexpectedly: {gist(failure)} (Spark's log: {log_path()})"
        return named

    # --- what it did -----------------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        positions = self._sink.record.positions
        fraction = fraction_of(self._sources, positions)
        within = None if self._pipeline is None else self._overseer.within(self._sink.scratch.committed().seq)
        if fraction is not None and within is not None:
            after = fraction_of(self._sources, {**positions, **within.positions}) or fraction
            fraction += within.share * max(0.0, after - fraction)
        told, live = self._sink.scratch.policy_report(), any(source.live for source in self._sources.values())
        waiting = {q.name: told.get("waiting", {}).get(task.name) for task in self._spec.tasks for q in task.queries}
        with self._sink.lock:
            queries = {q.name: self._of_query(q, waiting[q.name]) for q in self.app.queries}
        overloaded = bool(told.get("overload"))
        known = Progress(
            fraction, self._sink.metrics.batches, queries, live, self._spec.policy, told.get("k"), overloaded
        )
        if within is not None:
            known = replace(known, doing=within.doing, read=within.read, reached_us=within.reached_us)
        elif self._pipeline is not None and not known.batches:
            known = replace(known, doing="starting the first batch")
        return replace(known, memory=self._overseer.used)

    def _of_query(self, query: Query, waiting: int | None) -> QueryProgress:
        mine = self._sink.metrics.queries[query.name]
        report = mine.report(query.deadline_us)
        return QueryProgress(
            mine.arrived, mine.out, waiting, report["latency_ms"]["p95"], report["deadline_ms"], report["sdmr"]
        )

    @property
    def commits(self) -> list[tuple[float, int]]:
        """Of each batch that is durable: when (monotonic seconds), and how many tuples had been worked on by then. For
        measurements."""
        return list(self._sink.commits)

    @property
    def spark_progress(self) -> list[dict[str, Any]]:
        """What Spark says of its last few batches."""
        return [] if self._pipeline is None else self._pipeline.progress()

    @property
    def skipped(self) -> dict[str, list[str]]:
        """Of each stream, the first rows that ON ERROR SKIP left out."""
        return self._sink.record.skipped
