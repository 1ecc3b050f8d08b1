"""Opens what pushed streams of a run need: their queues, a server from which Spark reads them, and receivers.

The queues lie below the checkpoint, so a run that continues finds what senders were told is safe. Invariant: nothing is
trimmed that a replay may read. The server listens on loopback with a token of its own (`kigen.links`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from kigen.connectors import Receiver, ReceiverRequest, open_receiver
from kigen.connectors.pushed import IngestQueue, Pushed, decode_batch
from kigen.connectors.pushed.decoding import ARROW_STREAM, JSON_LINES
from kigen.engine.errors import ArgumentError
from kigen.links import READER, LinkServer
from kigen.links.flight.tokens import write_private
from kigen.plan.connectors.registry import connector_named
from kigen.plan.logical import App, SourceStream
from kigen.spark.admission.shedding import BatchShedding
from kigen.spark.links.ingest_source import IngestAccess
from kigen.spark.links.link_source import Access

INGEST = "ingest"  # below a checkpoint
OnCommit = Callable[[dict[str, int], dict[str, int]], None]


def pushed_streams(app: App) -> tuple[SourceStream, ...]:
    """Returns the streams that senders push."""
    known = ((s, connector_named(s.source.name)) for s in app.streams if not s.table)
    return tuple(s for s, spec in known if spec is not None and spec.is_pushed)


class Ingest:
    """Queues of all pushed streams of a run."""

    def __init__(
        self, app: App, checkpoint: Path, scratch: Path, syncs: bool, drain: bool, persistent: bool = False
    ) -> None:
        """Opens the queues. `persistent`: the checkpoint outlives the run, so brokers may keep messages for the next
        one."""
        streams = pushed_streams(app)
        if drain:
            raise ArgumentError(
                f"stream '{streams[0].name}' is pushed and never ends, so it cannot be drained: run without --drain"
            )
        clocks = scratch / "clocks"
        self.queues: dict[str, IngestQueue] = {}
        self._server: LinkServer | None = None
        self._receivers: list[Receiver] = []
        self._started = False
        self.notify: Callable[[str], None] = logging.getLogger("kigen").warning
        try:
            for stream in streams:
                clock = clocks / f"{stream.name}.clock"
                keeps = None if stream.shed is None else BatchShedding(stream.shed)
                self.queues[stream.name] = IngestQueue(stream, checkpoint / INGEST, clock, syncs, keeps=keeps)
            self.queue_bytes = min(queue.max_bytes for queue in self.queues.values())
            self._server = LinkServer([queue.queue for queue in self.queues.values()])
            token = scratch / "ingest-token"
            write_private(token, self._server.security.only(READER).token)
            for name, queue in self.queues.items():
                session = _session(checkpoint, name) if persistent else None
                receiver = open_receiver(ReceiverRequest(queue.stream, queue, app.directory, session, self._say))
                self._receivers += [] if receiver is None else [receiver]
            self.access = IngestAccess(Access(str(self._server.address), str(token)), str(clocks), tuple(self.queues))
        except BaseException:
            self.close()
            raise

    def start(self, notify: Callable[[str], None]) -> None:
        """Starts to receive from brokers. `notify` receives warnings for the user."""
        self.notify = notify
        if self._started:
            return  # the app has changed, and its queues have not
        self._started = True
        for receiver in self._receivers:
            receiver.start()

    def _say(self, text: str) -> None:
        self.notify(text)

    @property
    def error(self) -> Exception | None:
        """What ended a receiver: a bad row without ON ERROR SKIP, or a disk that refuses."""
        return next((receiver.error for receiver in self._receivers if receiver.error is not None), None)

    def push_rows(self, stream: str, rows: Iterable[Mapping[str, Any]] | pa.Table, key: str | None = None) -> Pushed:
        """Appends rows of Python, or a table."""
        queue = self._queue(stream)
        if isinstance(rows, pa.Table):
            return self.push_bytes(stream, _ipc(rows), ARROW_STREAM, key)
        lines = "".join(json.dumps(dict(row), default=_iso) + "\n" for row in rows)
        return self.push_bytes(queue.stream.name, lines.encode(), JSON_LINES, key)

    def push_bytes(self, stream: str, data: bytes, content_type: str, key: str | None = None) -> Pushed:
        """Decodes a batch and appends it."""
        queue = self._queue(stream)
        rows = decode_batch(data, content_type, queue.stream, time.time_ns() // 1000)
        return queue.push(rows, key, content_type.encode() + b"\n" + data)

    def _queue(self, stream: str) -> IngestQueue:
        if stream not in self.queues:
            raise ArgumentError(f"no pushed stream '{stream}': there are {', '.join(self.queues)}")
        return self.queues[stream]

    def resumed(self, positions: Mapping[str, Mapping[str, Any]]) -> OnCommit:
        """Takes note of where a run continues. Returns the listener for its commits."""
        self.committed({}, {s: int(at["index"]) for s, at in positions.items() if "index" in at})
        return self.committed

    def committed(self, needed: Mapping[str, int], done: Mapping[str, int]) -> None:
        """Takes note of a commit: see `BatchSink.on_commit`."""
        for name, queue in self.queues.items():
            if name in needed or name in done:
                queue.committed(needed.get(name), done.get(name))

    def status(self) -> dict[str, dict[str, Any]]:
        return {name: queue.status() for name, queue in self.queues.items()}

    def close(self) -> None:
        for receiver in self._receivers if self._started else ():
            receiver.close()
        if self._server is not None:
            self._server.close()
        for queue in self.queues.values():
            queue.close()


def open_ingest(app: App, checkpoint: Path, scratch: Path, syncs: bool, drain: bool, persistent: bool) -> Ingest | None:
    """Opens the queues of pushed streams; None if there are none."""
    return Ingest(app, checkpoint, scratch, syncs, drain, persistent) if pushed_streams(app) else None


def _session(checkpoint: Path, stream: str) -> str:
    """Returns the name of a persistent session, the same at each start on the checkpoint."""
    digest = hashlib.blake2b(f"{checkpoint}\n{stream}".encode(), digest_size=8).hexdigest()
    return f"kigen-{digest}"


def all_told(*listeners: OnCommit | None) -> OnCommit | None:
    """Returns one listener for commits that calls all of these."""
    present = [listener for listener in listeners if listener is not None]

    def tell(needed: dict[str, int], done: dict[str, int]) -> None:
        for listener in present:
            listener(needed, done)

    return tell if present else None


def _ipc(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _iso(value: object) -> str:
    """Writes a time as JSON lines have it; a time without a zone is UTC."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).isoformat()
    raise TypeError(f"a row holds a {type(value).__name__}: use bool, int, float, str, datetime or None")
