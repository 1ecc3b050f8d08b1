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
            self._recorded = int(self._answer()["recorded"])

    def finish(self) -> None:
        """Waits until the sink has recorded all rounds."""
        while self._recorded < self.sent:
            self._recorded = int(self._answer()["recorded"])

    def _answer(self) -> dict[str, Any]:
        header, _ = wire.receive(self._connection)
        if "failed" in header:
            raise DeliveryFailed("the sink has failed")
        return header
