"""Prepares a run: what its processes must know, which sinks it writes, and Spark made warm."""

from __future__ import annotations

import logging
import re
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kigen.connectors import Sink, open_sink
from kigen.durable import slow_disk
from kigen.engine.errors import RunFailed, SparkDied
from kigen.engine.options import RunOptions
from kigen.plan.dropped_rows import dropped_outputs
from kigen.plan.logical import LINES, App, Connector
from kigen.schedule import PolicySettings
from kigen.spark.links.link_source import Access
from kigen.spark.pipeline import is_process_death, warm_up
from kigen.spark.session.error_cause import error_cause
from kigen.spark.session.start import log_path
from kigen.spark.sink.output_writer import Outputs
from kigen.spark.sink.results import results_sink
from kigen.spark.spec import RunSpec, rows_within

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
ROUND_US = 2_000.0  # first guess of the fixed cost of a round


@dataclass(frozen=True)
class Links:
    """Connection of a run to other nodes.

    `access` reads received streams; `sinks` are those of sent queries. `on_commit` is called after each batch with two
    maps per stream: the oldest offset that a replay may read again, and the offset up to which all is processed.
    `on_epoch` is called at the end of each epoch, when the files of the checkpoint are at rest until it returns.
    `may_change`: the part of the app that runs here may differ from that of the checkpoint; `sinks` has those of both.
    """

    access: Access
    sinks: dict[str, Sink]
    on_commit: Callable[[dict[str, int], dict[str, int]], None]
    on_epoch: Callable[[], None] | None = None
    may_change: bool = False


def warn_of_slow_disk(folder: Path) -> None:
    """Logs a warning if syncs to this disk are slow: every acknowledgement waits for one."""
    warning = slow_disk(folder)
    if warning is not None:
        _log.warning("warning: %s", warning)


def warm(spark: SparkSession, app: App, options: RunOptions, access: Access) -> None:
    """Prepares Spark for a run of this app that may begin later; uses no checkpoint, inputs or outputs."""
    with tempfile.TemporaryDirectory(prefix="kigen-") as scratch:
        try:
            warm_up(spark, run_spec(app, options, Path(scratch), Path(scratch), access))
        except Exception as error:
            raise start_error(error, "Spark did not start") from error


def start_error(error: Exception, what: str) -> RunFailed:
    """Returns the error to raise when Spark failed to start a run."""
    if is_process_death(error):
        return SparkDied(f"Spark was killed while it started: {error_cause(error)} (Spark's log: {log_path()})")
    return RunFailed(f"{what}: {error_cause(error)} (Spark's log: {log_path()})")


def run_spec(app: App, options: RunOptions, checkpoint: Path, scratch: Path, access: Access | None) -> RunSpec:
    """Returns what every process of the run must know."""
    return RunSpec(
        app=app,
        run_id=uuid.uuid4().hex,
        checkpoint=str(checkpoint),
        scratch=str(scratch),
        draining=options.drain,
        lifetime=options.lifetime,
        policy=options.scheduling[0],
        settings=_settings(options),
        batch_rows=min(options.first_batch_rows, rows_within(str(options.memory))),
        partitions=options.partitions,
        epoch_us=round(options.epoch_s * 1e6),
        lanes=options.lanes or 0,
        inline_bytes=options.largest_inline_bytes,
        memory=str(options.memory),
        runtime=options.runtime,
        links=access,
        syncs=options.syncs and options.checkpoint is not None,  # no run continues from a temporary checkpoint
    )


def with_lines(app: App) -> App:
    """Returns the app with lines of every query, for outputs that need them beside what INTO takes."""
    given = (q if LINES in q.gives or q.sent else replace(q, also=(*q.also, LINES)) for q in app.queries)
    return replace(app, queries=tuple(given))


def _settings(options: RunOptions) -> PolicySettings:
    """Returns the settings of the policy. The first guess of the fixed cost is that of a round, or of a micro-batch."""
    settings = options.scheduling[1]
    if options.epoch_s and settings.fixed_us == PolicySettings.fixed_us:
        settings = replace(settings, fixed_us=ROUND_US)
    return replace(settings, may_drop=not options.drain)


def of_change(number: int) -> str:
    """Returns the end of an output's name in the sink log. Outputs that a change added differ from older ones."""
    return f" #{number}" if number else ""


def name_runs(outputs: Outputs, name: str, syncs: bool) -> None:
    """Tells all outputs how durable they are, and the name by which they recognize their own work."""
    for output, sink in (pair for pairs in outputs.values() for pair in pairs):
        number = re.search(r" #(\d+)$", output)
        sink.syncs, sink.run_name = syncs, name if number is None else f"{name}-{number[1]}"


def open_outputs(app: App, output: str | None, results: Path | None, links: Links | None) -> Outputs:
    """Opens the sinks of each query, and those of rows that streams drop.

    `output` is the directory for csv files, `results` the one for results that the run keeps.
    """
    outputs: Outputs = {}
    for query in app.queries:
        mine, suffix = outputs.setdefault(query.name, []), of_change(query.added_by)
        if query.sent:
            assert links is not None, f"{query.name} goes to another node"
            mine.append((f"{query.name} into", links.sinks[query.name]))
            continue
        if query.into is not None:
            sink = open_sink(query.into, query.schema, query.root.is_stream, app.directory, query.name)
            mine.append((f"{query.name} into{suffix}", sink))
        lines = outputs.setdefault(query.gives.get(LINES, query.name), [])
        if output is not None:
            csv = Connector("csv", (("path", f"{query.name}.csv"),))
            sink = open_sink(csv, query.schema, query.root.is_stream, output, query.name)
            lines.append((f"{query.name} output{suffix}", sink))
        if results is not None:
            lines.append((f"{query.name} results{suffix}", results_sink(query, results)))
    for stream in app.streams:
        for name, kind, into, schema in dropped_outputs(stream):
            suffix = of_change(stream.added_by)
            outputs[name] = [(f"{stream.name} {kind}{suffix}", open_sink(into, schema, True, app.directory, name))]
    return outputs
