"""Tuples of a trial as bytes, and the operator that a trial's nodes run."""

from __future__ import annotations

from dataclasses import dataclass

from kigen.queue.payload import codec_number, pack
from kigen_lab.simulate.standby.model import TUPLE_BYTES, Drawn
from kigen_lab.simulate.standby.virtual_queue import GAP


def packed_bytes(drawn: Drawn, rows: list[int], compress: str) -> int:
    """Counts the bytes of tuples as a queue sends them: compressed, if that makes them fewer."""
    if compress == "none":
        return TUPLE_BYTES * len(rows)
    plain = b"".join(drawn.records[row * TUPLE_BYTES : (row + 1) * TUPLE_BYTES] for row in rows)
    return len(pack(plain, codec_number(compress))) - 1  # without the number of the codec, which a message's head holds


@dataclass(frozen=True)
class DrawnOperator:
    """A selection, or a window with one result per tuple: which tuples give a result was drawn with the trial."""

    drawn: Drawn

    def step(self, rows: list[int]) -> tuple[DrawnOperator, int | None, list[int]]:
        jump, results, passed = None, list[int](), self.drawn.passed
        for row in rows:
            if row <= GAP:
                jump, results = GAP - row, []
            elif passed[row + 1] > passed[row]:
                results.append(row)
        return self, jump, results
