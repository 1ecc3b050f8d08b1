"""Runs a lane from epoch to epoch on a thread of a worker, so that rounds go on while Spark is between two epochs.

Spark calls `run_lane` once per epoch and lane, in any of its workers. The call finds the lane's runner, in this process
or through a socket in another one, and waits for what the epoch gives Spark: rows and state. Meanwhile the runner has
begun the next epoch. If there is no runner, or it does not continue the state that Spark has, the call starts a new
one, whose higher attempt fences the old one. Invariant: a runner continues only from the state that it gave to Spark,
and admission lets it be one epoch ahead at most. Its kernels stay in its process, so an epoch loads nothing.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from kigen.durable import replace
from kigen.spark.operator.lane.lane_loop import EpochResult, run_epoch
from kigen.spark.operator.lane.lane_state import StateRow
from kigen.spark.operator.outbox import Encoders
from kigen.spark.operator.task_step import ResultRow
from kigen.spark.rounds import wire
from kigen.spark.spec import RunSpec

_RUNNERS: dict[tuple[str, int], LaneRunner] = {}  # (run, lane) -> the newest one of this process
_REGISTERING = threading.Lock()
_KEPT = 2  # epochs whose results stay: Spark may ask again after a worker has died


def run_lane(spec: RunSpec, payload: dict[str, Any], state: Any, encoders: Encoders | None) -> list[ResultRow]:
    """Waits for the epoch of a lane and returns its last rows. Raises what has ended the runner."""
    before: StateRow | None = tuple(state.get) if state.exists else None
    result = _ask_runner(spec, payload, before)
    if result is None:
        runner = LaneRunner(spec, payload, before, encoders, _attempt())
        result = runner.result(payload["epoch"], digest(before))
        if result is None:
            assert runner.error is not None
            raise runner.error
    if result.state is not None:
        state.update(result.state)
    return result.rows


def _ask_runner(spec: RunSpec, payload: dict[str, Any], before: StateRow | None) -> EpochResult | None:
    """Waits for the result of the runner that is ahead; None: there is none, or it cannot continue this state."""
    mine = _RUNNERS.get((spec.run_id, payload["lane"]))
    if payload["adopted"] or before is None:
        return None
    if mine is not None:
        return mine.result(payload["epoch"], digest(before))
    try:
        address = _address_file(spec, payload["lane"]).read_text(encoding="utf-8")
        key = wire.read_key(Path(spec.checkpoint) / wire.KEY_FILE)
        with wire.connect(address, key) as connection:
            wire.send(connection, {"epoch": payload["epoch"], "before": digest(before)})
            header, parts = wire.receive(connection)
    except (OSError, EOFError, ValueError, AuthenticationError):
        return None  # none, on another machine, gone, or of the pipeline before a change of the app
    if "rows" not in header:
        return None
    state = header["state"]
    rows: list[ResultRow] = [tuple(row) for row in header["rows"]]
    return EpochResult(rows, None if state is None else (state[0], state[1], parts[0] if parts else None))


def digest(state: StateRow | None) -> str:
    """Returns a checksum of a state."""
    if state is None:
        return ""
    return hashlib.blake2b(state[1].encode() + b"\0" + bytes(state[2] or b""), digest_size=16).hexdigest()


class LaneRunner:
    """Runs the epochs of a lane, beginning with the one of `payload`."""

    def __init__(
        self,
        spec: RunSpec,
        payload: dict[str, Any],
        state: StateRow | None,
        encoders: Encoders | None,
        attempt: int,
    ) -> None:
        self._spec, self._payload, self._encoders, self._attempt = spec, payload, encoders, attempt
        self._epoch, self._state = int(payload["epoch"]), state  # the epoch that runs, and the state before it
        self._before = {self._epoch: digest(state)}  # epoch -> the state that it began with
        self._results: dict[int, EpochResult] = {}
        self._changed = threading.Condition()
        self.is_alive = True
        self.error: BaseException | None = None  # what has ended the runner
        key = spec.run_id, int(payload["lane"])
        with _REGISTERING:
            for other in [other for other, runner in _RUNNERS.items() if other == key or not runner.is_alive]:
                _RUNNERS.pop(other).close()
            _RUNNERS[key] = self
        self._server = self._serve()
        threading.Thread(target=self._run, name=f"kigen-lane-{key[1] + 1}", daemon=True).start()

    def _run(self) -> None:
        try:
            while self._next():
                pass
        except BaseException as error:  # the call that waits raises it
            self.error = error
        with self._changed:
            self.is_alive = False
            self._changed.notify_all()

    def _next(self) -> bool:
        """Runs one epoch. Returns whether the next one may follow here."""
        result = run_epoch(self._spec, self._payload, self._state, self._encoders, self._attempt)
        with self._changed:
            self._results[self._epoch] = result
            for old in [epoch for epoch in self._results if epoch <= self._epoch - _KEPT]:
                del self._results[old], self._before[old]
            self._epoch += 1
            self._state, self._payload = result.state, {**self._payload, "epoch": self._epoch, "adopted": []}
            self._before[self._epoch] = digest(result.state)
            self._changed.notify_all()
        return result.state is not None and self._is_alone

    @property
    def _is_alone(self) -> bool:
        """Whether no other lane runs in this process. Lanes that share one would wait for each other."""
        return not any(runner.is_alive for runner in list(_RUNNERS.values()) if runner is not self)

    def result(self, epoch: int, before: str) -> EpochResult | None:
        """Waits for the result of an epoch that began with this state; None: it is not run here."""
        with self._changed:
            if self._before.get(epoch) != before:
                return None
            while epoch not in self._results and self.is_alive:
                self._changed.wait()
            return self._results.get(epoch)

    def close(self) -> None:
        """Stops to answer other workers: a newer runner does."""
        if self._server is not None:
            with suppress(FileNotFoundError):
                self._server.close()

    # --- other workers ---------------------------------------------------------------------------------------------

    def _serve(self) -> wire.Server | None:
        """Lets other workers of this machine ask for results."""
        file = _address_file(self._spec, self._payload["lane"])
        if not Path(self._spec.scratch).is_dir():
            return None  # a worker on another machine than the command
        key = wire.read_key(Path(self._spec.checkpoint) / wire.KEY_FILE)
        server = wire.Server(f"{file}.{secrets.token_hex(4)}", key, self._answer, "kigen-lane")
        replace(file, str(server.address).encode())
        return server

    def _answer(self, connection: Connection) -> None:
        asked, _ = wire.receive(connection)
        result = self.result(int(asked["epoch"]), str(asked["before"]))
        if result is None:
            wire.send(connection, {"none": True})
            return
        state = result.state
        snapshots = [] if state is None or state[2] is None else [bytes(state[2])]
        rows = [[*row[:4], None, row[5]] for row in result.rows]  # rows at the end of an epoch have no payload
        with suppress(OSError):
            wire.send(connection, {"rows": rows, "state": None if state is None else state[:2]}, snapshots)


def _address_file(spec: RunSpec, lane: int) -> Path:
    return Path(spec.scratch) / f"lane-{lane}"


def _attempt() -> int:
    """Returns a number that grows with every attempt at this task or any other."""
    context = TaskContext.get()
    return 0 if context is None else int(context.taskAttemptId())
