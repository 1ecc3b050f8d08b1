"""Serves rounds to the lanes of an epoch. It runs in the reader's process, with one thread per lane.

A worker begins with its epoch, lane and attempt. It gets the rounds that are logged already, which it makes again, and
then asks for one round after the other. Invariant: only the newest attempt of a lane gets new rounds. The end of an
epoch is a decision like any other: when the epoch's time is over and no lane would miss a deadline by the pause, when
it has read so much that a replay would take long, or when nothing is left to do, each lane gets a last round. The time
of an epoch begins with its first round: an idle run stays in one epoch.

Lanes that have ended an epoch ask for the next one before Spark does. When all of them have asked, it begins: rounds go
on while Spark commits the last epoch and plans this one. Invariant: an epoch does not end before Spark has begun it, so
lanes are ahead of Spark by one epoch at most.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kigen.durable import DamagedFile, replace
from kigen.spark.admission.changed_tasks import fitted_lanes, fitted_queues
from kigen.spark.admission.lane import Lane, RoundDone, costs_file, deal, now_us
from kigen.spark.admission.lane_moves import Move, plan_moves
from kigen.spark.admission.offsets import LaneStart, Offset
from kigen.spark.operator.lane import moved_task
from kigen.spark.rounds import round_log, wire
from kigen.spark.rounds.round import LoggedRound, Round
from kigen.spark.scratch import Scratch
from kigen.spark.spec import RunSpec

GAP_US = 250_000.0  # first guess of the pause between two epochs
LARGEST_EPOCH = 3_000_000  # tuples per lane: queues keep what an epoch has read, and a replay reads it again
_REPORT_S = 0.5
_AHEAD_S = 0.001  # between two looks whether the other lanes have ended, too
_LATE_S = 0.005  # between two looks of a lane when the time of its epoch is over
_TODO = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"
_OVERTIME = 1.1  # an epoch ends after this share of its length, whatever waits
_STARTING_S = 600.0  # for a worker to ask for its epoch
_ALL_LANES_S = 10.0  # for the workers of all lanes to be ready, before the streams of a new run begin


class EpochServer:
    """Admission of a run in epochs."""

    def __init__(self, spec: RunSpec, scratch: Scratch) -> None:
        self._spec, self._scratch = spec, scratch
        self._lanes: list[Lane] = []
        self._epoch = self._spark_epoch = 0  # the newest epoch, and the newest that Spark has begun
        self._ahead: set[int] = set()  # lanes that wait for the epoch after the newest
        self._last_rounds: list[list[bytes]] = []  # per lane: of the epoch before the newest, as JSON
        self._started_us = 0  # when live streams began
        self._ready: set[int] = set()  # lanes of a new run whose workers have loaded their kernels
        self._reported_ready = False  # whether the command knows it
        self._flowing = False  # whether live streams have begun
        self._attempts: list[int] = []  # newest attempt per lane in this epoch
        self._began: float | None = None  # when the first worker asked
        self._ending = self._failed = False
        self._broken = False  # the run must end; the next one reads the round log
        self._moves: list[Move] = []  # at the end of this epoch
        self._offset: Offset | None = None  # of the newest epoch
        self._gap_us, self._ended_at = GAP_US, 0.0
        self._reported = 0.0
        self._lock = threading.Lock()
        self._locks: list[threading.Lock] = []
        key = wire.read_key(Path(spec.checkpoint) / wire.KEY_FILE)
        self._server = wire.Server(spec.listening_address("admission"), key, self._serve, "kigen-admission")

    @property
    def address(self) -> wire.Address:
        return self._server.address

    def begin(self, start: Offset) -> Offset:
        """Begins the epoch after `start`, unless the lanes have begun it, and returns its offset."""
        with self._lock:
            if not self._lanes:
                known = round_log.first_offset(self._spec.checkpoint)
                self._started_us = start.started_us if known is None else int(known["started_us"])
                self._open(start)
            elif self._epoch <= start.seq:
                self._move([lane.last for lane in self._lanes if lane.last is not None])
            if self._epoch <= start.seq:
                self._begin(start.seq + 1)
            self._spark_epoch = start.seq + 1
        round_log.trim(self._spec.checkpoint, start.seq)
        moved_task.trim(self._spec.checkpoint, start.seq - round_log.KEPT)
        assert self._offset is not None
        return self._offset

    def _begin(self, epoch: int) -> None:
        try:
            self._open_epoch(epoch)
        except Exception:
            self._broken = True  # some lanes have the new epoch, others the old one
            raise

    def _open_epoch(self, epoch: int) -> None:
        self._last_rounds = [lane.logged for lane in self._lanes]
        self._epoch, self._moves, self._ahead = epoch, [], set()
        self._attempts = [-1] * len(self._lanes)
        self._began, self._ending = None, False
        queues = {queue: at for lane in self._lanes for queue, at in lane.queues.items()}
        starts: list[LaneStart] = [lane.start for lane in self._lanes]
        self._offset = Offset(epoch, self._started_us, now_us(), {}, [], _copied(queues), {}, starts)
        for lane in self._lanes:
            lane.begin_epoch(epoch)
        self._ending = any(lane.ended for lane in self._lanes)  # as an earlier process decided

    @property
    def is_ahead(self) -> bool:
        """Whether lanes have begun an epoch that Spark has not."""
        return self._epoch > self._spark_epoch

    def _open(self, start: Offset) -> None:
        """Opens the lanes as they are after the batch of `start`."""
        starts = start.lanes or deal(self._spec, self._spec.lanes, start.logs)
        starts = [{**lane, "adopted": []} for lane in starts]  # what the epoch of `start` adopted is done
        self._lanes = [
            Lane(self._spec, place, lane, start.queues, self._started_us) for place, lane in enumerate(starts)
        ]
        self._locks = [threading.Lock() for _ in starts]
        if start.lanes is None:
            self._fit()
            return
        last: list[Round | LoggedRound] = []
        for lane in self._lanes:  # the offset is from the start of its epoch
            if not lane.had_tasks:
                continue
            entries, _ = round_log.read(round_log.path_of(self._spec.checkpoint, start.seq, lane.place))
            if not entries or not entries[-1].last:
                path = round_log.path_of(self._spec.checkpoint, start.seq, lane.place)
                raise DamagedFile(str(path), "it has lost its end, though Spark has committed its epoch", _TODO)
            for entry in entries:
                lane.pass_by(entry)
            last += entries[-1:]
        self._move(last)
        self._fit()

    def _fit(self) -> None:
        """Opens the lanes anew if a change of the app has dropped or added tasks."""
        starts: list[LaneStart] = [lane.start for lane in self._lanes]
        queues = {queue: at for lane in self._lanes for queue, at in lane.queues.items()}
        fitting, cursors = fitted_lanes(starts, self._spec), fitted_queues(queues, self._spec)
        if fitting == starts and cursors == queues:
            return
        for lane in self._lanes:
            lane.close()
        self._lanes = [Lane(self._spec, place, start, cursors, self._started_us) for place, start in enumerate(fitting)]

    def _move(self, last: Sequence[Round | LoggedRound]) -> None:
        """Opens the lanes anew if tasks move between them, as the last rounds of the epoch say."""
        moves = {task: place for entry in last for task, place in entry.moves.items()}
        if not moves:
            return
        queues = {queue: at for lane in self._lanes for queue, at in lane.queues.items()}
        costs = [found for lane in self._lanes if (found := lane.costs()) is not None]
        if costs:
            together = {**costs[0], "tasks": {task: us for one in costs for task, us in one["tasks"].items()}}
            for lane in self._lanes:
                replace(costs_file(self._spec.checkpoint, lane.place), json.dumps(together).encode())
        starts: list[LaneStart] = [lane.start for lane in self._lanes]
        for place, start in enumerate(starts):
            start["adopted"] = sorted(task for task, to in moves.items() if to == place)
            start["tasks"] = [task for task in start["tasks"] if task not in moves] + start["adopted"]
        for lane in self._lanes:
            lane.close()
        self._lanes = [Lane(self._spec, place, start, queues, self._started_us) for place, start in enumerate(starts)]

    @property
    def over(self) -> bool:
        """Whether all streams have ended for all lanes."""
        return bool(self._lanes) and all(lane.over for lane in self._lanes)

    # --- lanes -----------------------------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        header, _ = wire.receive(connection)
        epoch, place, attempt = int(header["epoch"]), int(header["lane"]), int(header["attempt"])
        if epoch == self._epoch - 1 and self.is_ahead:  # a worker has died after its epoch, before Spark had the state
            self._send_logged(connection, self._last_rounds[place])
            wire.receive(connection)  # until it is done
            return
        self._wait_for(epoch, place)
        with self._lock:
            moved = {task.name for task in self._lanes[place].tasks} != set(header["tasks"])
            if self._broken or epoch != self._epoch or attempt < self._attempts[place] or moved:
                wire.send(connection, {"fenced": True})
                return
            self._attempts[place] = attempt
            if self._began is None:
                self._began = time.monotonic()
                if self._ended_at:
                    self._gap_us += 0.3 * ((self._began - self._ended_at) * 1e6 - self._gap_us)
        with self._locks[place]:
            lane = self._lanes[place]
            self._send_logged(connection, lane.logged)
        started: dict[str, int] | None = None  # with the first round
        while True:
            header, _ = wire.receive(connection)
            if started is None:
                self._await_streams(place)
                started = {"started_us": self._started_us}
            if header.get("failed"):
                self._ending = self._failed = True  # the other lanes end at once
                self._wake()
                return
            done = RoundDone(**header)
            try:
                with self._scratch.recording_errors():
                    found = self._next(lane, done, epoch, attempt)
            except Exception:
                self._broken = True  # cursors may have moved over a round that is not logged
                raise
            if found is None:
                wire.send(connection, {"fenced": True})
                return
            if started:
                wire.send(connection, {**json.loads(found.text), **started})
            else:
                wire.send_encoded(connection, found.text)
            started = {}
            if found.last:
                return

    def _send_logged(self, connection: Connection, rounds: list[bytes]) -> None:
        """Sends the rounds that are logged already: each is a part."""
        wire.send(connection, {"started_us": self._started_us}, rounds)

    def _wait_for(self, epoch: int, place: int) -> None:
        """Waits until the next epoch begins, for a lane that has ended the newest one. The last lane begins it."""
        while True:
            with self._lock:
                if epoch != self._epoch + 1 or self._is_last_epoch:
                    return
                self._ahead.add(place)
                if len(self._ahead) == sum(1 for lane in self._lanes if lane.tasks):
                    with self._scratch.recording_errors():
                        self._begin(epoch)
                    return
            time.sleep(_AHEAD_S)

    @property
    def _is_last_epoch(self) -> bool:
        """Whether Spark itself must begin what comes after the newest epoch, if anything does."""
        if self.is_ahead or self._broken or self._failed or not self._spec.epoch_us:
            return True
        moves = any(lane.last is not None and lane.last.moves for lane in self._lanes)  # lanes must be opened anew
        return moves or self._scratch.stopping or self.over

    def _await_streams(self, place: int) -> None:
        """Lets the live streams of a new run begin when the workers of all lanes have loaded their kernels.

        Spark has needed seconds since it asked for the first offset, and tuples would have waited for it. A lane that
        gets no worker holds up the others for a moment only. The command may hold the streams until other nodes are
        ready, too.
        """
        until = time.monotonic() + _ALL_LANES_S
        while True:
            with self._lock:
                self._ready.add(place)
                if self._flowing:
                    return
                is_new = self._epoch == 1 and not any(lane.logged for lane in self._lanes)
                all_ready = len(self._ready) >= sum(1 for lane in self._lanes if lane.tasks)
                if (all_ready or time.monotonic() >= until) and not self._reported_ready:
                    self._scratch.report_lanes_ready()
                    self._reported_ready = True
                ends = self._broken or self._failed or self._scratch.stopping
                if ends or not is_new or (self._reported_ready and not self._scratch.holding):
                    if is_new:
                        self._start_streams()
                    self._flowing, self._began = True, time.monotonic()
                    return
            time.sleep(_LATE_S if self._reported_ready else _AHEAD_S)

    def _start_streams(self) -> None:
        first = round_log.first_offset(self._spec.checkpoint)
        if first is not None:
            self._started_us = now_us()
            round_log.save_first_offset(
                self._spec.checkpoint, {**first, "started_us": self._started_us}, self._spec.syncs
            )
            for lane in self._lanes:
                lane.restart(self._started_us)

    def _next(self, lane: Lane, done: RoundDone, epoch: int, attempt: int) -> LoggedRound | None:
        """Waits for the next round of a lane, and returns it; None: a newer attempt has taken over."""
        while True:
            lane.news.clear()  # what comes from here on ends the wait
            at_us = now_us()
            with self._locks[lane.place]:
                if self._broken or epoch != self._epoch or attempt != self._attempts[lane.place]:
                    return None
                if self._ends(at_us) or self._failed:
                    self._ended_at = time.monotonic()
                    self._report(now=True)
                    moves = {task: to for task, place, to in self._moves if place == lane.place}
                    return lane.end(at_us, moves)
                found = lane.next(done, at_us, self._scratch.closing)
                if found is not None:
                    if not self._spec.epoch_us:
                        self._ending = True  # one round per epoch
                    self._report()
                    return found
                wait_s = min(lane.wait_s(at_us), self._left_s())
            done = RoundDone()  # it is told
            lane.news.wait(wait_s)

    def _ends(self, at_us: int) -> bool:
        """Decides whether the epoch ends. Once it does, it ends for all lanes."""
        with self._lock:
            if not self._ending and self._is_time(at_us):
                self._ending = True
                self._wake()
            return self._ending

    def _left_s(self) -> float:
        """Returns how long a lane may wait, so that the epoch ends in time."""
        assert self._began is not None
        length_s = (self._spec.epoch_us or _STARTING_S * 1e6) / 1e6
        return max(_LATE_S, length_s - (time.monotonic() - self._began))

    def _wake(self) -> None:
        """Lets all lanes look at once."""
        for lane in self._lanes:
            lane.news.set()

    def _is_time(self, at_us: int) -> bool:
        assert self._began is not None
        if self.is_ahead:
            return False
        passed_us = (time.monotonic() - self._began) * 1e6
        length_us = self._spec.epoch_us or _STARTING_S * 1e6
        if self._scratch.stopping or self.over:
            return True
        if not any(lane.logged for lane in self._lanes) and self._can_idle:
            self._began = time.monotonic()  # there is nothing to commit
            return False
        if passed_us < length_us and max(lane.epoch_rows for lane in self._lanes) <= LARGEST_EPOCH:
            return False
        can_wait = length_us <= passed_us < _OVERTIME * length_us
        if can_wait and not all(lane.can_pause(at_us, self._gap_us) for lane in self._lanes):
            return False
        if all(lane.can_reopen for lane in self._lanes):
            self._moves = plan_moves([lane.work_us for lane in self._lanes], passed_us)
        return True

    @property
    def _can_idle(self) -> bool:
        """Whether nobody waits for the end of an epoch: no job of Spark's, no output, and no standby, which gets a copy
        then."""
        if self._spec.links is not None or self._spec.holds_all_slots:
            return False
        return not self._scratch.outputs_wait and not self._scratch.slots_wanted

    def _report(self, now: bool = False) -> None:
        at = time.monotonic()
        if now or at - self._reported >= _REPORT_S:
            self._reported = at
            self._scratch.set_policy_report({**merged([lane.report() for lane in self._lanes]), "gap_us": self._gap_us})


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges what the policies of all lanes report: a run is as overloaded as its most loaded lane."""
    known = [report for report in reports if report]
    found: dict[str, Any] = {}
    for report in known:
        found = {**report, **found}
    found["waiting"] = {task: count for report in known for task, count in report.get("waiting", {}).items()}
    found["overload"] = any(report.get("overload") for report in known)
    costs = [report["costs"] for report in known if "costs" in report]
    if costs:
        found["costs"] = {**costs[0], "tasks": {name: value for one in costs for name, value in one["tasks"].items()}}
    return found


def _copied(queues: dict[str, Any]) -> dict[str, Any]:
    return {queue: {stream: dict(at) for stream, at in cursors.items()} for queue, cursors in queues.items()}
