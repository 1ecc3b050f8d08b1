"""Keeps the tables of a run: reads those that only the run can read, and refreshes those that change.

Each table that changes has a thread, which writes versions below the checkpoint (kigen.connectors.table.versions).
Admission finds them there. Invariant: one process writes versions, the one that owns the checkpoint. A refresh that
fails leaves the version that is there, warns, and is tried again; a changelog that cannot be read ends the run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kigen.connectors import InputError
from kigen.connectors.kafka.changelog import Changelog
from kigen.connectors.kafka.cluster import NoBroker
from kigen.connectors.registry import table_reader
from kigen.connectors.table.keys import check_key
from kigen.connectors.table.versions import KeptTable, TableVersions
from kigen.durable import DamagedFile
from kigen.plan.logical import App, SourceStream
from kigen.spark.dataframes.table_frame import TableFrame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGELOG_EVERY_S = 0.25  # between two looks at a changelog without REFRESH
_TRIM_AT = 64  # versions that no replay needs: then one is written as a whole, and the files before it go


class Tables:
    """The tables of a run that change, or that only Spark can read."""

    def __init__(self, app: App, checkpoint: Path, sync: bool, drain: bool) -> None:
        self._app, self._drain = app, drain
        used = {name for query in app.queries for name in query.streams}
        self._streams = [s for s in app.streams if s.table and s.name in used]
        self._versions = {s.name: TableVersions(checkpoint, s.name, s.schema, sync) for s in self._streams}
        self._known = {name: versions.newest() for name, versions in self._versions.items()}
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._trimmed: dict[str, int] = {}
        self.notify: Callable[[str], None] = logging.getLogger("kigen").warning
        self.error: Exception | None = None

    def start(self, spark: SparkSession, frames: Mapping[str, DataFrame], notify: Callable[[str], None]) -> None:
        """Reads the first version of tables of Spark, and starts to refresh."""
        self.notify = notify
        for stream in self._streams:
            read: Callable[[], pa.Table] | None = None
            if stream.source.name == "spark":
                read = TableFrame(spark, stream, frames.get(stream.copy_of or stream.name))
                if not self._versions[stream.name].base():
                    rows = read()
                    check_key(stream, rows)
                    self._versions[stream.name].write_first(rows)
            if stream.changes and not self._drain:
                thread = threading.Thread(target=self._keep, args=(stream, read), name=f"kigen-{stream.name}")
                thread.daemon = True
                self._threads.append(thread)
                thread.start()

    def _keep(self, stream: SourceStream, read: Callable[[], pa.Table] | None) -> None:
        try:
            if stream.source.name == "kafka":
                self._follow(stream)
            else:
                self._refresh(stream, read or table_reader(stream, self._app.directory))
        except Exception as error:
            if not self._stopping.is_set():
                self.error = self.error or error

    def _refresh(self, stream: SourceStream, read: Callable[[], pa.Table]) -> None:
        table, every_s = KeptTable(self._versions[stream.name], stream), (stream.refresh_us or 0) / 1e6
        warned = ""
        wait_s = 0.0 if self._known[stream.name] else every_s  # a run that continues may have missed a change
        while not self._stopping.wait(wait_s):
            wait_s = every_s
            try:
                table.refresh(read())
            except Exception as error:
                if isinstance(error, DamagedFile) or self._stopping.is_set():
                    raise
                if str(error) != warned:
                    warned = str(error)
                    self.notify(
                        f"warning: table '{stream.name}' keeps its rows, since it cannot be refreshed: {error}; "
                        f"tried again every {every_s:g} s"
                    )
                continue
            if warned:
                warned = ""
                self.notify(f"table '{stream.name}' is refreshed again")

    def _follow(self, stream: SourceStream) -> None:
        log = Changelog(stream, self._app.directory)
        table = KeptTable(self._versions[stream.name], stream)
        every_s = CHANGELOG_EVERY_S if stream.refresh_us is None else stream.refresh_us / 1e6
        away = False
        try:
            while not self._stopping.wait(every_s):
                try:
                    log.follow(table)
                except NoBroker as error:
                    if not away:
                        self.notify(f"warning: table '{stream.name}' waits for its changelog: {error}")
                    away = True
                else:
                    away = False
        finally:
            log.close()

    def committed(self, needed: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Takes note of a commit: removes versions that no replay reads."""
        for name, versions in self._versions.items():
            before = needed.get(name, 0)
            if before >= self._trimmed.get(name, 0) + _TRIM_AT:
                versions.trim(before)
                self._trimmed[name] = before

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(5)


def failure_of(tables: Tables | None) -> Exception | None:
    """Returns what ended a table; an error that is not the user's becomes one with its table's name."""
    error = None if tables is None else tables.error
    return error if error is None or isinstance(error, InputError | OSError | DamagedFile) else InputError(str(error))
