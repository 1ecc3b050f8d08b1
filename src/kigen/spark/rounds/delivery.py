"""Delivers the results of rounds from a lane to the sink, and waits for the sink where it falls behind.

Invariant: at most `WINDOW` rounds are on their way. `finish` returns when the sink has recorded all of them. Cost: a
message per round; the worker does not wait for its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from kigen.spark.rounds import wire

WINDOW = 32
_RISING, _FALLING = 0.2, 0.05
Row = tuple[str, int, str | None, str, bytes | None, str | None]


class DeliveryFailed(RuntimeError):
    """The sink could not write a round. It keeps the error for the command."""


class Delivery:
    """Connection of a lane to the sink for one epoch. `has` is the last round that every output of the lane has."""

    def __init__(self, address: wire.Address, key: bytes, about: dict[str, Any]) -> None:
        self._connection = wire.connect(address, key)
        wire.send(self._connection, about)
        self.has = int(self._answer()["has"])
        self.sent = self._recorded = self.has
        self.recording_us = 0.0  # how long the sink needs to record a round, smoothed

    def __enter__(self) -> Delivery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    def deliver(self, number: int, rows: Sequence[Row]) -> None:
        """Sends the rows of a round. Raises DeliveryFailed if the sink has failed."""
        heads = [(task, query, kind, note, payload is not None) for task, _, query, kind, payload, note in rows]
        wire.send(
            self._connection,
            {"round": number, "rows": heads},
            [payload for _, _, _, _, payload, _ in rows if payload is not None],
        )
        self.sent = number
        while self._connection.poll() or self.sent - self._recorded > WINDOW:
            self._note(self._answer())

    def finish(self) -> None:
        """Waits until the sink has recorded all rounds."""
        while self._recorded < self.sent:
            self._note(self._answer())

    def end_epoch(self, rows: Sequence[Row], lanes: int) -> None:
        """Reports the end of the lane's epoch, which has so many lanes, and waits until the sink knows it."""
        heads = [(task, query, kind, note, False) for task, _, query, kind, _, note in rows]
        wire.send(self._connection, {"end": lanes, "rows": heads})
        self._answer()

    def _note(self, answer: dict[str, Any]) -> None:
        self._recorded = int(answer["recorded"])
        took_us = float(answer["took_us"])
        weight = _RISING if took_us > self.recording_us else _FALLING  # rather too long than too short
        self.recording_us += weight * (took_us - self.recording_us)

    def _answer(self) -> dict[str, Any]:
        header, _ = wire.receive(self._connection)
        if "failed" in header:
            raise DeliveryFailed("the sink has failed")
        return header
