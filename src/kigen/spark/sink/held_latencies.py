"""Keeps the latencies of tuples whose results an output has been given, but has not committed.

Outputs that commit at intervals (Kafka, PostgreSQL) show results later than the record of their round. The latency of
such a tuple ends when all outputs that got its query's results have committed them. Invariant: what is held depends on
the records of rounds alone, so a restart that reads them holds the same. Cost: the notes of the rounds of one interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Note = dict[str, Any]
Held = Mapping[str, Iterable[str]]  # query -> outputs that have not committed its results


class HeldLatencies:
    """Steps whose latencies are still open, with the outputs that they wait for."""

    def __init__(self) -> None:
        self._open: list[tuple[Note, str, set[str]]] = []

    def hold(self, note: Note, held: Held) -> frozenset[str]:
        """Holds a step for those of its queries that wait for outputs. Returns its other queries."""
        waiting = {query: set(held[query]) for query in note["counts"] if query in held}
        self._open += [(note, query, outputs) for query, outputs in waiting.items()]
        return frozenset(note["counts"]) - waiting.keys()

    def release(self, outputs: Iterable[str] | None) -> list[tuple[Note, frozenset[str]]]:
        """Returns the steps that waited for no more than these outputs, with their queries. None: all steps."""
        done, still = [], []
        committed = None if outputs is None else set(outputs)
        for note, query, waits in self._open:
            if committed is not None:
                waits -= committed
            if committed is None or not waits:
                done.append((note, frozenset((query,))))
            else:
                still.append((note, query, waits))
        self._open = still
        return done
