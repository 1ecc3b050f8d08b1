"""Takes the results of rounds from the lanes, and hands them to the sink in groups.

Each lane has a connection and a thread that reads it. One thread writes: it takes all rounds that wait, so that they
share the syncs of one commit, and answers each lane when its rounds are recorded. Invariant: rounds of a lane are
written in order, once. Rounds of an older attempt that come late are the same rounds, so the sink knows them already.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from kigen.spark.rounds import wire

_GROUP = 64  # rounds in one commit
_IDLE_S = 0.25  # between two looks whether an output is due, if no round comes and the sink knows of none


@dataclass(frozen=True)
class DeliveredRound:
    """Results of one round."""

    epoch: int
    lane: int
    number: int
    rows: list[dict[str, Any]]  # as Spark's sink gets them: task, query, kind, payload, note
    came_s: float = 0.0  # monotonic time


@dataclass(frozen=True)
class EndedLane:
    """The end of a lane's epoch: all its rounds are recorded."""

    epoch: int
    lane: int
    lanes: int  # of the epoch
    rows: list[dict[str, Any]]


Delivered = tuple[DeliveredRound | EndedLane, Connection]


class RoundServer:
    """Serves the lanes of a run.

    `begin` returns the last round that the sink has of a lane in an epoch. `write` writes a group of rounds; an empty
    group lets it commit what is due. It returns in how many seconds something will be due, None if nothing waits for
    that. `end` takes note that a lane has ended its epoch.
    """

    def __init__(
        self,
        address: wire.Address,
        key: bytes,
        begin: Callable[[int, int], int],
        write: Callable[[list[DeliveredRound]], float | None],
        end: Callable[[EndedLane], None],
    ) -> None:
        self._begin, self._write, self._end = begin, write, end
        self._waiting: queue.SimpleQueue[Delivered | None] = queue.SimpleQueue()
        self._failed = False
        self._wait_s = _IDLE_S
        self._thread = threading.Thread(target=self._work, name="kigen-rounds", daemon=True)
        self._thread.start()
        self._server = wire.Server(address, key, self._serve, "kigen-sink")

    @property
    def address(self) -> wire.Address:
        return self._server.address

    def _serve(self, connection: Connection) -> None:
        about, _ = wire.receive(connection)
        epoch, lane = int(about["epoch"]), int(about["lane"])
        wire.send(connection, {"has": self._begin(epoch, lane)})
        while True:
            header, parts = wire.receive(connection)
            came_s = time.monotonic()
            payloads = iter(parts)
            rows = [
                {
                    "task": task,
                    "query": query,
                    "kind": kind,
                    "note": note,
                    "payload": next(payloads) if packed else None,
                }
                for task, query, kind, note, packed in header["rows"]
            ]
            if "end" in header:
                self._waiting.put((EndedLane(epoch, lane, int(header["end"]), rows), connection))
            else:
                self._waiting.put((DeliveredRound(epoch, lane, int(header["round"]), rows, came_s), connection))

    def _work(self) -> None:
        while True:
            group = self._take()
            if group is None:
                return
            try:
                if not self._failed:
                    due_s = self._write([delivered for delivered, _ in group if isinstance(delivered, DeliveredRound)])
                    self._wait_s = _IDLE_S if due_s is None else min(due_s, _IDLE_S)
                    for delivered, _ in group:
                        if isinstance(delivered, EndedLane):
                            self._end(delivered)
            except Exception:  # the sink keeps the error for the command
                self._failed, self._wait_s = True, _IDLE_S
            now_s = time.monotonic()
            for delivered, connection in group:
                with suppress(Exception):  # the worker is gone
                    wire.send(connection, {"failed": True} if self._failed else _answer(delivered, now_s))

    def _take(self) -> list[Delivered] | None:
        """Waits for rounds; returns None at the end."""
        group: list[Delivered] = []
        with suppress(queue.Empty):
            found = self._waiting.get(timeout=self._wait_s)
            while found is not None:
                group.append(found)
                if len(group) == _GROUP:
                    return group
                found = self._waiting.get_nowait()
            return None
        return group

    def close(self) -> None:
        self._server.close()
        self._waiting.put(None)
        self._thread.join(5.0)
        self._server.disconnect()  # a lane whose round is not written would wait for its answer


def _answer(delivered: DeliveredRound | EndedLane, now_s: float) -> dict[str, Any]:
    if isinstance(delivered, EndedLane):
        return {"ended": delivered.epoch}
    return {"recorded": delivered.number, "took_us": round(1e6 * (now_s - delivered.came_s))}
