"""Keeps the app of a run on its checkpoint: the plans that run, and changes of them.

Invariant: a change is made only while no batch is planned that Spark has not committed (`is_settled`), and replacing
the record is the whole of it: what is on disk before that belongs to the old app, what comes after it to the new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kigen.connectors import Source
from kigen.engine.changes.adoption import adopt
from kigen.engine.changes.difference import Difference, difference, option_changes
from kigen.engine.changes.files import finish_change
from kigen.engine.changes.planned import PlannedChange, planned_change
from kigen.engine.changes.starts import begun_us, with_starts
from kigen.engine.checkpoint.app_record import AppRecord, read_record, write_record
from kigen.engine.checkpoint.fingerprint import declaration_digest, fingerprint, refusal
from kigen.engine.ingest import pushed_streams
from kigen.engine.options import RunOptions
from kigen.engine.preparation import name_runs, open_outputs
from kigen.plan.logical import App
from kigen.spark.admission.stand import is_settled, stand_of
from kigen.spark.links.ingest_source import IngestAccess
from kigen.spark.links.link_source import Access
from kigen.spark.sink.alignment import align
from kigen.spark.sink.sink_log import SinkLog
from kigen.spark.spec import RunSpec, sliced_tasks


class AppOfRun:
    """The app of one run, before and after changes."""

    def __init__(
        self,
        checkpoint: Path,
        options: RunOptions,
        output: str | None,
        may_change: bool,
        sync: bool,
        read: Callable[[str], App] | None = None,
    ) -> None:
        """`read` reads the text of an app, as the app of the run was read."""
        self._checkpoint, self._options, self._output = checkpoint, options, output
        self._may_change, self._sync, self._read = may_change, sync, read
        self._started_with = ""  # digest of the app that this run was started with
        self.continues_changed = False  # whether the app was changed while an earlier run went on
        self.record = AppRecord({})
        self.pending: App | None = None  # a changed app that waits until the checkpoint is settled
        self.last: PlannedChange | None = None  # the last change of this run

    def load(self, declared: App, spec_of: Callable[[App], RunSpec]) -> App:
        """Returns the app that runs first. It is the one of the record if a batch of that has to be finished first."""
        declared = self._as_changed(declared)
        self.record, _, found = adopt(self._checkpoint, declared, self._identify, self._may_change, self._sync)
        if found is not None:
            sends = any(query.sent for query in self.record.queries)  # other nodes have what was sent
            align(self._checkpoint, can_cut_back=not sends)
            if not is_settled(self._checkpoint):
                self.pending = declared
            else:
                self._cut_back(self.record.app(declared), found)
                self.change(declared, spec_of, self._options.replay_us)
        return self.record.app(declared)

    def _as_changed(self, declared: App) -> App:
        """Returns the app as it was changed while an earlier run went on, if it was started with the same one."""
        self._started_with = declaration_digest(self._identify(declared))
        record = read_record(self._checkpoint, version("kigen"))
        if record is None or record.started_with != self._started_with or self._read is None:
            return declared
        self.continues_changed = True
        return self._read(record.text)

    def _identify(self, app: App) -> dict[str, Any]:
        slices = sorted(sliced_tasks(app, self._options.scheduling[0], self._options.drain))
        options = self._options
        return fingerprint(app, options.lifetime, options.drain, self._output, version("kigen"), slices)

    def plan(self, declared: App, replay_us: int | None = None) -> PlannedChange:
        """Plans the change to another app. Raises CheckpointMismatch, ArgumentError."""
        mine = self._identify(declared)
        mine["sliced"] = self.record.fingerprint["sliced"]
        found = difference(self.record.fingerprint, mine)
        if wrong := option_changes(self.record.fingerprint, mine, found):
            raise refusal(self._checkpoint, wrong)
        stand = stand_of(self._checkpoint)
        planned = planned_change(self.record, declared, mine, found, stand, replay_us, self._output)
        mine["sliced"] = self._identify(planned.app)["sliced"]
        return planned

    def is_same(self, planned: PlannedChange) -> bool:
        """Whether no stream and no query changes."""
        return planned.found.is_empty and planned.record.fingerprint["streams"] == self.record.fingerprint["streams"]

    def take_text(self, declared: App) -> None:
        """Records the text of an app that is the same but for views, functions that nobody calls, and layout."""
        self.record = self._while_running(replace(self.record, text=declared.text))
        write_record(self._checkpoint, self.record, self._sync)

    def _while_running(self, record: AppRecord) -> AppRecord:
        """Returns the record of a change of a run that goes on. The same command must continue the changed app."""
        same = declaration_digest(record.fingerprint) == self._started_with
        return replace(record, started_with="" if same else self._started_with)

    def try_out(
        self, planned: PlannedChange, spec_of: Callable[[App], RunSpec]
    ) -> tuple[dict[str, Source], dict[str, int]]:
        """Opens what a change needs, before anything changes: finds missing inputs and wrong options. Returns the
        sources of its added tasks, and when streams begin."""
        begun = begun_us(planned, stand_of(self._checkpoint), time.time_ns() // 1000)
        sources = self._sources(planned, replace(spec_of(planned.app), begun_us=begun))
        for source in sources.values():
            source.initial()
        open_outputs(_without_sent(planned.app), self._output, None, None)
        return sources, begun

    def change(
        self, declared: App, spec_of: Callable[[App], RunSpec], replay_us: int | None, while_running: bool = False
    ) -> PlannedChange:
        """Changes the app. The checkpoint must be settled, and nothing of it open. `spec_of` returns the specification
        of a run of an app, with which the sources of added queries are tried before anything changes."""
        planned, stand = self.plan(declared, replay_us), stand_of(self._checkpoint)
        sources, begun = self.try_out(planned, spec_of)
        record = with_starts(planned, stand, sources, begun, self.record.tasks)
        if while_running:
            record = self._while_running(record)
        write_record(self._checkpoint, record, self._sync)
        self.record = finish_change(self._checkpoint, record, self._sync)
        self.pending, self.last = None, planned
        return planned

    def _sources(self, planned: PlannedChange, spec: RunSpec) -> dict[str, Source]:
        """Opens the sources of the added tasks. Those of pushed streams are not asked for tuples."""
        pushed = tuple(stream.name for stream in pushed_streams(planned.app))
        spec = replace(spec, ingest=IngestAccess(Access("", ""), "", pushed))
        stand = stand_of(self._checkpoint)
        streams = {stream for task in planned.added_tasks for stream in task.streams}
        return spec.sources(0 if stand is None else stand.started_us, streams)

    def _cut_back(self, before: App, found: Difference) -> None:
        """Cuts file outputs of dropped queries back to what is committed: no run will do it later."""
        gone = replace(before, queries=tuple(q for q in before.queries if q.name in found.dropped), streams=())
        last = SinkLog(str(self._checkpoint)).last()
        outputs = open_outputs(_without_sent(gone), self._output, None, None)
        name_runs(outputs, "", self._sync)
        for name, sink in (pair for pairs in outputs.values() for pair in pairs):
            position = None if last is None else last.sink_positions.get(name)
            if position is not None and hasattr(sink, "path"):
                sink.open(position)
                sink.close()


def _without_sent(app: App) -> App:
    """Returns the app with what it writes itself: the queues of what it sends to other nodes belong to the node."""
    return replace(app, queries=tuple(query for query in app.queries if not query.sent))
