"""Saves a queue into a new folder: one segment that a restart opens as the queue was, however long its own log is.

With rows, the segment holds the tuples that the queue keeps. Without rows, it describes the queue before it received
them, and the process that opens it asks the upstream node for them. Invariant: after opening, the segment gives the
same `start`, readers and (with rows) tuples, `end`, sequence numbers and watermark. Cost: the bytes that are kept,
once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kigen.queue.producers_and_readers import ProducersAndReaders
from kigen.queue.record import NO_PROGRESS
from kigen.queue.segment import Segment
from kigen.queue.store import StoredBlock, state_record


def without_rows(clients: ProducersAndReaders) -> ProducersAndReaders:
    """Returns the bookkeeping as if the kept tuples had not been received yet."""
    empty = copy.deepcopy(clients)
    empty.end = empty.start
    for producer in empty.producers.values():
        producer.progress_us = NO_PROGRESS
        producer.next = empty.start if producer.counts == "tuples" else producer.next
    return empty


def save(folder: Path, head: dict[str, Any], clients: ProducersAndReaders, blocks: Sequence[StoredBlock]) -> None:
    """Writes the segment.

    The state is stored twice: after the blocks as it is, and before them without a watermark, so that a reader of the
    first block does not see a watermark too early.
    """
    folder.mkdir(parents=True)
    before = copy.deepcopy(clients)
    if blocks:
        before.end = blocks[0].record.first
        for producer in before.producers.values():
            producer.progress_us = NO_PROGRESS
    segment = Segment.create(folder, 1, sync=False)
    segment.append([state_record({**head, "parties": before.to_json()})])
    if blocks:
        segment.append([(block.record, block.payload()) for block in blocks])
        segment.append([state_record({"parties": clients.to_json()})])
