"""A queue's files written anew, elsewhere: one segment that a restart opens as the queue was, however long its own log
is.

With its rows, what is kept; without, the queue as it was before it took what it keeps: whoever opens it asks the node
before for the rest. Invariant: opened, the segment gives the same `start`, readers and (with rows) tuples, `end`,
numbers and progress. Cost: the bytes of what is kept, once.
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


def without_rows(parties: ProducersAndReaders) -> ProducersAndReaders:
    """As if nothing that is kept had been taken yet."""
    empty = copy.deepcopy(parties)
    empty.end = empty.start
    for producer in empty.producers.values():
        producer.progress_us = NO_PROGRESS
        producer.next = empty.start if producer.counts == "tuples" else producer.next
    return empty


def save(folder: Path, head: dict[str, Any], parties: ProducersAndReaders, blocks: Sequence[StoredBlock]) -> None:
    """The state stands twice: behind the blocks as it is, and before them with no promise that a reader of the first
    would hear early."""
    folder.mkdir(parents=True)
    before = copy.deepcopy(parties)
    if blocks:
        before.end = blocks[0].record.first
        for producer in before.producers.values():
            producer.progress_us = NO_PROGRESS
    segment = Segment.create(folder, 1, sync=False)
    segment.append([state_record({**head, "parties": before.to_json()})])
    if blocks:
        segment.append([(kept.record, kept.payload()) for kept in blocks])
        segment.append([state_record({"parties": parties.to_json()})])
