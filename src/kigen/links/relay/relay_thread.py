"""Moves a stream from an upstream node's queue into this node's queue, in a thread.

An upstream node with a standby is two servers whose queues hold the same rows at the same offsets. Where one does not
answer, the relay follows the other, from where this node's queue ends. Readers that follow different servers meet again
at the one that more of them follow, so that the other can stand by. The relay takes rows over in whole steps, up to a
watermark row: between two of them, replicas may have saved and loaded their state at different times, and nobody needs
half a step.

Invariant: this node's queue holds what the upstream queue holds, in order, nothing twice. The kind of the node's
standby (`kigen.replicas.standby_kind`) says when rows are acknowledged upstream:

- appended: as soon as they are in this node's queue, whose files answer for them from then on;
- delivered: when `ack` is called. The relay acknowledges the last watermark row up to there, with the number of results
  that the rows before it gave;
- copied: when `release` is called.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from kigen.links.errors import LinkDown
from kigen.links.flight.acker import Acker
from kigen.links.flight.address import Security
from kigen.links.flight.client import Link, Received
from kigen.links.flight.connection import Patience
from kigen.links.flight.counters import WireBytes
from kigen.links.relay.server_watch import ServerWatch, Watch
from kigen.queue.errors import QueueClosed, QueueError, TrimNoteMissing, UnknownStream
from kigen.queue.record import ENDED, NO_PROGRESS
from kigen.queue.stream_queue import Queue
from kigen.replicas.relay_units import (
    DeliveredAcks,
    FindWatermarks,
    MakeGapRow,
    RelayUnits,
    Unit,
    ack_for_others,
    upstream_position,
)
from kigen.replicas.replica_names import required_with_leader
from kigen.replicas.server_choice import ServerChoice
from kigen.replicas.standby_kind import Acks, Alone, StandbyKind, asks_anew

_AGAIN_S, _TURN_S, _REPORT_S = 0.2, 0.02, 1.0
PRODUCER = "relay"


class Relay:
    def __init__(
        self,
        queue: Queue,
        addresses: str | Sequence[str],
        reader: str,
        security: Security | None = None,
        kind: StandbyKind | None = None,
        find_watermarks: FindWatermarks | None = None,
        make_gap_row: MakeGapRow | None = None,
        watch: Watch | None = None,
        leads: bool = False,
    ) -> None:
        self._queue, self._reader, self._security = queue, reader, security
        self._addresses = (addresses,) if isinstance(addresses, str) else tuple(addresses)
        self._kind: StandbyKind = Alone() if kind is None else kind
        self._find_watermarks, self._make_gap_row = find_watermarks, make_gap_row
        self._watch = watch or Watch()
        self._choice = ServerChoice(f"{queue.name}/{reader}", len(self._addresses))
        self._leads = threading.Event()
        if leads:
            self._leads.set()
        self._stopped = threading.Event()
        self._link: Link | None = None
        self._acker: Acker | None = None
        self._delivered = DeliveredAcks(find_watermarks)
        self._wire = WireBytes(0, 0, True)
        self.connected = False
        self._lost_s: float | None = time.monotonic()
        self.rows = 0
        # of each change to another server: when this one was suspected, when the other answered, when it had new rows
        self.switched: list[dict[str, float]] = []
        self.error: QueueError | None = None  # what trying again cannot heal
        self._thread = threading.Thread(target=self._work, name=f"relay {queue.name}", daemon=True)
        self._thread.start()
        if self._choice.several and self._kind.acks is not Acks.COPIED:
            threading.Thread(target=self._report_to_others, name=f"report {queue.name}", daemon=True).start()

    @property
    def address(self) -> str:
        return self._addresses[self._choice.index]

    @property
    def wire(self) -> WireBytes:
        """Counts the bytes of all connections so far, both ways."""
        link = self._link
        return self._wire if link is None else _sum(self._wire, link.wire())

    @property
    def cut_off_s(self) -> float:
        """Returns for how long the upstream node has not answered; 0 if it does, or if nothing more will come."""
        lost_s = self._lost_s
        return 0.0 if lost_s is None or self._queue.status()["progress_us"] == ENDED else time.monotonic() - lost_s

    def lead(self, leads: bool) -> None:
        """Changes the role of this replica. A leader takes rows as they come, a follower in batches."""
        if leads != self._leads.is_set():
            (self._leads.set if leads else self._leads.clear)()
            if asks_anew(self._kind):
                self._unfollow()

    def ack(self, offset: int, note: str = "") -> None:
        """Acknowledges the input up to the last watermark row before this offset of this node's queue (delivered)."""
        if self._delivered.worked_off(offset, note):
            self._send_delivered()

    def release(self, readers: Iterable[str], offset: int | None = None) -> None:
        """Acknowledges, for these readers, the rows before this upstream offset (None: all that are here). The readers
        may be gone, and nobody must wait for them."""
        upstream = self._position() if offset is None else offset
        for address in self._addresses:
            with (
                suppress(QueueError),
                Link(address, self._security, Patience(patience_s=_AGAIN_S, call_s=self._watch.silence_s)) as link,
            ):
                for reader in readers:
                    link.ack(self._queue.name, reader, upstream)

    def close(self) -> None:
        self._stopped.set()
        self._unfollow()
        self._thread.join(10)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Tries again and again: the upstream node may not be up yet, or be gone for a while."""
        while not self._stopped.is_set():
            leads, known, lost_s = self._leads.is_set(), True, self._lost_s
            if self._kind.request(leads) is None:
                self._stopped.wait(_AGAIN_S)
                continue
            try:
                self._follow()
            except (LinkDown, UnknownStream, QueueClosed):
                pass
            except TrimNoteMissing:  # this server cannot say yet what it trimmed: as if it had not been reached
                known, self._lost_s = False, lost_s
            except Exception as error:  # a node must not go on without its relay, and nobody else would see this
                if not self._stopped.is_set():
                    name = self._queue.name
                    self.error = error if isinstance(error, QueueError) else QueueError(f"stream '{name}': {error!r}")
                return
            answered, self.connected = self.connected, False
            self._lost_s = time.monotonic() if self._lost_s is None else self._lost_s
            if leads == self._leads.is_set() and not self._stopped.is_set():  # no new role: the server is to be left
                self._turn(answered and known)

    def _turn(self, answered: bool) -> None:
        """`answered`: the server that is left had been followed."""
        if self._choice.leave(answered) and self._queue.status()["progress_us"] != ENDED:
            self.switched.append({"suspected_s": time.time()})
        self._stopped.wait(_TURN_S if answered and self._choice.several else _AGAIN_S)

    def _follow(self) -> None:
        watched = self._choice.several or self._watch.alone
        patience = self._watch.patience if watched else Patience(patience_s=5.0)
        self._link = link = Link(self.address, self._security, patience)
        over = threading.Event()
        try:
            if self._stopped.is_set():
                return
            link.open_reader(self._queue.name, self._reader)
            self.connected, self._lost_s = True, None
            if self.switched and "answered_s" not in self.switched[-1]:
                self.switched[-1]["answered_s"] = time.time()
            if watched:
                self._server_watch().start(link, over)
            with Acker(link, self._queue.name, self._reader) as self._acker:
                self._take(link)
        finally:
            over.set()
            self._acker = None
            self._wire = _sum(self._wire, link.wire())
            self._link = None
            link.close()

    def _server_watch(self) -> ServerWatch:
        def on_status(link: Link, answer: dict[str, Any]) -> None:
            if self._counts_by_role and self._reader not in answer["required"]:
                self._require_this_one(link)  # the other replica led for a while too, and reported the same of itself

        return ServerWatch(self._queue.name, self._addresses, self._choice, self._security, self._watch, on_status)

    def _position(self) -> int:
        """Returns the upstream offset behind what is here, also before the first connection of this process."""
        known = self._queue.status()["producers"].get(PRODUCER)
        return 0 if known is None else upstream_position(known["next"], self._kind.skips_trimmed)

    @property
    def _counts_by_role(self) -> bool:
        """Whether this replica is the one whose acks count, and not the other."""
        return self._kind.acks is Acks.DELIVERED and self._leads.is_set()

    def _send_delivered(self) -> None:
        acker, (upstream, note) = self._acker, self._delivered.last
        if upstream and acker is not None:
            try:
                acker.done(upstream, note)
            except QueueError:  # the ack was not taken: it is sent again on a new connection
                self._unfollow()

    def _unfollow(self) -> None:
        """Ends the connection; the thread makes another one, unless the relay is closed."""
        link = self._link
        if link is not None:
            link.stop()

    def _require_this_one(self, link: Link) -> None:
        required = link.status(self._queue.name)["required"]
        link.require(self._queue.name, required_with_leader(required, self._reader))

    def _report_to_others(self) -> None:
        """Acknowledges to the servers that are not followed, so that they need not keep the rows either."""
        while not self._stopped.wait(_REPORT_S):
            ack = ack_for_others(self._kind, self._leads.is_set(), self._position(), self._delivered.last)
            for address in [a for a in self._addresses if a != self.address and ack is not None]:
                with suppress(QueueError), Link(address, self._security, self._watch.patience) as link:
                    if self._kind.acks is Acks.DELIVERED:
                        self._require_this_one(link)
                    assert ack is not None
                    link.ack(self._queue.name, self._reader, ack[0], note=ack[1])

    def _take(self, link: Link) -> None:
        kind, leads = self._kind, self._leads.is_set()
        producer = self._queue.open_producer(PRODUCER, counts="batches" if kind.skips_trimmed else "tuples")
        position, request = upstream_position(producer.next, kind.skips_trimmed), kind.request(leads)
        if kind.acks is Acks.APPENDED and self._acker is not None:
            self._acker.done(position)
        if kind.acks is Acks.DELIVERED and leads:
            self._require_this_one(link)
            self._send_delivered()
        if request is None:
            return
        answers = link.follow(
            self._queue.name,
            position,
            reader=self._reader,
            compress=request.compress,
            skip_trimmed=kind.skips_trimmed,
            may_be_ahead=self._choice.several,
            **({} if request.batch is None else {"min_tuples": request.batch}),
        )
        units = RelayUnits(position, self._find_watermarks, self._make_gap_row)
        for answer in answers:
            unit = units.received(answer.first, answer.note, answer.batches)
            if unit.rows:
                self._append(unit, answer, producer.epoch)
            elif unit.complete and answer.progress_us != NO_PROGRESS:
                self._queue.progress(answer.progress_us, PRODUCER, producer.epoch)

    def _append(self, unit: Unit, answer: Received, epoch: int) -> None:
        progress_us = answer.progress_us if unit.complete and answer.progress_us != NO_PROGRESS else None
        sequence = unit.end if self._kind.skips_trimmed else unit.first
        appended = self._queue.append(unit.batches, sequence, producer=PRODUCER, epoch=epoch, progress_us=progress_us)
        self.rows += unit.rows
        if self._kind.acks is Acks.DELIVERED:
            self._delivered.appended(unit, appended.end)
        if self.switched and "news_s" not in self.switched[-1]:
            self.switched[-1]["news_s"] = time.time()
        if self._kind.acks is Acks.APPENDED and self._acker is not None:
            self._acker.done(unit.end)


def _sum(a: WireBytes, b: WireBytes) -> WireBytes:
    return WireBytes(a.sent + b.sent, a.received + b.received, a.measured and b.measured)
