"""Checks of pushed streams: what a sender knows to be safe is in the ingest queue once, whatever was restarted.

The queue is read as workers read it, over its server, by the source that a run uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kigen.connectors.source_base import Range
from kigen.engine.ingest import Ingest
from kigen.plan.logical import App
from kigen.spark.links.ingest_source import IngestSource
from kigen.testing.connector.cases import ReceiverCase, require

STARTS, ROWS = 3, 20
_WAIT_S = 30.0
_QUIET_S = 0.3


def every_row_once(case: ReceiverCase) -> None:
    """Sends rows while the run is stopped and started again: all are in the queue once, and ranges can be replayed."""
    stream = case.stream()
    with TemporaryDirectory(dir=case.directory) as folder:
        sent = 0
        for start in range(STARTS):
            with _running(case, Path(folder), start) as (ingest, source):
                for _ in range(2):
                    case.send(ingest.queues[stream.name], [case.make(n) for n in range(sent, sent + ROWS)])
                    sent += ROWS
                if start == STARTS - 1:
                    _require_all(case, ingest, source, sent)
                elif not case.keeps:
                    _arrived(ingest, source, sent)
            if case.keeps and start < STARTS - 1:
                case.send(ingest.queues[stream.name], [case.make(n) for n in range(sent, sent + ROWS)])
                sent += ROWS


def _require_all(case: ReceiverCase, ingest: Ingest, source: IngestSource, sent: int) -> None:
    known = _arrived(ingest, source, sent)
    require(known >= sent, f"{sent} rows were sent and acknowledged, and {known} have arrived")
    until = time.monotonic() + _QUIET_S
    while time.monotonic() < until:
        known = source.arrived_by(time.time_ns() // 1000)
        time.sleep(0.02)
    require(known == sent, f"{sent} rows were sent, and {known} have arrived: some came twice")
    whole = _rows(source, [(0, known)])
    wanted = sorted(map(repr, (case.make(n) for n in range(sent))))
    require(sorted(map(repr, whole)) == wanted, "the rows of the queue are not those that were sent")
    for size in (1, 7):
        cuts = [(at, min(at + size, known)) for at in range(0, known, size)]
        require(_rows(source, cuts) == whole, f"ranges of {size} tuples give other rows than one range")


def _arrived(ingest: Ingest, source: IngestSource, sent: int) -> int:
    """Waits until so many tuples have arrived, and returns how many have."""
    until = time.monotonic() + _WAIT_S
    while (known := source.arrived_by(time.time_ns() // 1000)) < sent and time.monotonic() < until:
        if ingest.error is not None:
            raise ingest.error
        time.sleep(0.01)
    return known


def _rows(source: IngestSource, cuts: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
    found = []
    for first, end in cuts:
        table = source.read(Range(source.stream.name, {"index": first}, {"index": end})).table
        found += [tuple(row.values())[:-1] for row in table.to_pylist()]
    return found


@contextmanager
def _running(case: ReceiverCase, folder: Path, start: int) -> Iterator[tuple[Ingest, IngestSource]]:
    """Opens queue and receiver, as a run does that starts or continues."""
    stream = case.stream()
    app = App((stream,), (), str(case.directory))
    ingest = Ingest(app, folder / "checkpoint", folder / f"scratch-{start}", syncs=False, drain=False, persistent=True)
    try:
        ingest.start(lambda text: None)
        yield ingest, IngestSource(stream, ingest.access)
    finally:
        ingest.close()


RECEIVER_CHECKS: tuple[Callable[[ReceiverCase], None], ...] = (every_row_once,)


def check_receiver(case: ReceiverCase) -> None:
    """Runs all checks of a pushed stream. Raises Nonconforming at the first that fails."""
    for check in RECEIVER_CHECKS:
        check(case)
