"""A stream on its way through nodes: a thread follows the queue of the node before and appends to this node's own.

A node before that has a standby is one of two servers whose queues hold the same rows at the same offsets: where one
does not answer, the other is followed, from where the queue here ends. Readers that have come to follow different ones
meet again at the one that more of them follow, so that the other can stand by. Rows are taken over in whole steps, up
to a mark (`marks`): between marks, replicas may have saved and loaded their state at different times, and nobody needs
half a step. Invariant: the queue here holds what the one before holds, in order, nothing twice. What is in it is
acknowledged there (this node's files answer for it from then on), unless acks are given by hand (`by_hand`: a node with
a standby keeps its inputs there until its results are delivered: then the last mark before what is done with is
acknowledged, and how many results there were up to it) or by `release`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kigen.links.errors import LinkDown
from kigen.links.flight.acker import Acker
from kigen.links.flight.address import Security
from kigen.links.flight.client import Link, Received
from kigen.links.flight.connection import Patience
from kigen.links.flight.counters import WireBytes
from kigen.queue.errors import QueueClosed, QueueError, TrimNoteMissing, UnknownStream
from kigen.queue.record import ENDED, NO_PROGRESS
from kigen.queue.stream_queue import Queue
from kigen.replicas.relay_units import HandAcks, Hole, Marks, Steps, Unit, reached
from kigen.replicas.server_choice import Seen, Whom

_AGAIN_S, _TURN_S, _TELL_S, _MEET_S = 0.2, 0.02, 1.0, 5.0
PRODUCER = "relay"


@dataclass(frozen=True)
class Watch:
    """When a node before counts as gone, if there is another: it does not answer for so long, asked so often. `alone`:
    ask also if there is no other, so as to know whether it is heard."""

    silence_s: float = 1.0
    every_s: float = 0.1
    alone: bool = False


@dataclass(frozen=True)
class Following:
    """How rows are asked for. `batch`: in whole batches of so many; None: whatever is there. `skipping`: rows that the
    node before has let go are left out, and `hole` makes the row that stands for them. `holding`: nothing is
    acknowledged but by `release`."""

    compress: str = "none"
    batch: int | None = None
    skipping: bool = False
    by_hand: bool = False
    holding: bool = False

    @property
    def at_once(self) -> bool:
        """What is here is acknowledged there."""
        return not self.by_hand and not self.holding


class Relay:
    def __init__(
        self,
        queue: Queue,
        addresses: str | Sequence[str],
        reader: str,
        security: Security | None = None,
        following: Following | None = None,
        marks: Marks | None = None,
        hole: Hole | None = None,
        watch: Watch | None = None,
    ) -> None:
        self._queue, self._reader, self._security = queue, reader, security
        self._addresses = (addresses,) if isinstance(addresses, str) else tuple(addresses)
        self._following, self._marks, self._hole = following or Following(), marks, hole
        self._watch = watch or Watch()
        self._whom = Whom(f"{queue.name}/{reader}", len(self._addresses))
        self._eager = threading.Event()  # a batch is not waited for
        self._stopped = threading.Event()
        self._link: Link | None = None
        self._acks: Acker | None = None
        self._by_hand = HandAcks(marks)
        self._wire = WireBytes(0, 0, True)
        self.connected = False
        self._lost_s: float | None = time.monotonic()
        self.rows = 0
        self.switched: list[
            dict[str, float]
        ] = []  # of each change to another server: when it was seen, when that one answered, had news
        self.error: QueueError | None = None  # what cannot be healed by trying again
        self._thread = threading.Thread(target=self._work, name=f"relay {queue.name}", daemon=True)
        self._thread.start()
        if self._whom.several:
            threading.Thread(target=self._tell_others, name=f"tell {queue.name}", daemon=True).start()

    @property
    def address(self) -> str:
        return self._addresses[self._whom.at]

    @property
    def wire(self) -> WireBytes:
        """Bytes of all connections so far, both ways."""
        link = self._link
        return self._wire if link is None else _sum(self._wire, link.wire())

    @property
    def deaf_s(self) -> float:
        """How long the node before has not been heard; 0 if it is, or if nothing more will come of it."""
        lost_s = self._lost_s
        return 0.0 if lost_s is None or self._queue.status()["progress_us"] == ENDED else time.monotonic() - lost_s

    def lead(self, eager: bool) -> None:
        """Whether others rely on this node now: then rows are taken as they come."""
        if eager != self._eager.is_set():
            (self._eager.set if eager else self._eager.clear)()
            if self._following.batch is not None or self._following.by_hand:
                self._unfollow()

    def ack(self, here: int, note: str = "") -> None:
        """By hand: whatever lies before the last mark up to this offset is done with."""
        if self._by_hand.done(here, note):
            self._send_done()

    def release(self, readers: Iterable[str], offset: int | None = None) -> None:
        """All that is here, or lies before `offset`, is done with for these readers: they may be gone, and must not be
        waited for."""
        there = self._there() if offset is None else offset
        for address in self._addresses:
            with (
                suppress(QueueError),
                Link(address, self._security, Patience(patience_s=_AGAIN_S, call_s=self._watch.silence_s)) as link,
            ):
                for reader in readers:
                    link.ack(self._queue.name, reader, there)

    def close(self) -> None:
        self._stopped.set()
        self._unfollow()
        self._thread.join(10)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """The node before may not be up yet, or be gone for a while: tried until it, or its standby, is there."""
        while not self._stopped.is_set():
            leading, told, lost_s = self._eager.is_set(), True, self._lost_s
            try:
                self._follow()
            except (LinkDown, UnknownStream, QueueClosed):
                pass
            except (
                TrimNoteMissing
            ):  # by this one: the other may know, or it will be told; it is as if it had not been heard
                told, self._lost_s = False, lost_s
            except Exception as error:  # no node goes on without its relay, and nobody else would hear of it
                if not self._stopped.is_set():
                    self.error = (
                        error
                        if isinstance(error, QueueError)
                        else QueueError(f"stream '{self._queue.name}': {error!r}")
                    )
                return
            heard, self.connected = self.connected, False
            self._lost_s = time.monotonic() if self._lost_s is None else self._lost_s
            if leading == self._eager.is_set() and not self._stopped.is_set():  # not asked to begin anew
                self._turn(heard and told)

    def _turn(self, heard: bool) -> None:
        """`heard`: the server that is left had been followed."""
        if self._whom.left(heard) and self._queue.status()["progress_us"] != ENDED:
            self.switched.append({"suspected_s": time.time()})
        self._stopped.wait(_TURN_S if heard and self._whom.several else _AGAIN_S)

    def _follow(self) -> None:
        watched = self._whom.several or self._watch.alone
        patience = self._short if watched else Patience(patience_s=5.0)
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
                threading.Thread(
                    target=self._ping, args=(link, over), name=f"watch {self._queue.name}", daemon=True
                ).start()
            with Acker(link, self._queue.name, self._reader) as self._acks:
                self._take(link)
        finally:
            over.set()
            self._acks = None
            self._wire = _sum(self._wire, link.wire())
            self._link = None
            link.close()

    def _ping(self, followed: Link, over: threading.Event) -> None:
        """Asks on a connection of its own; silence ends the following, and another server is tried. So does one that is
        cut off from what it reads itself, if another is not; and one that fewer follow than another."""
        link, looked_s, met_s = Link(self.address, self._security, self._short), 0.0, time.monotonic()
        try:
            while not over.wait(self._watch.every_s):
                try:
                    told, now = link.status(self._queue.name), time.monotonic()
                    here = _seen(told, self._whom.at)
                    if self._following.by_hand and self._eager.is_set() and self._reader not in told["required"]:
                        self._require_me(link)  # the other replica led for a while, too, and said the same of itself
                    if here.deaf and now - looked_s > self._watch.silence_s:
                        looked_s = now
                        if self._whom.cut_off(here, self._others()):
                            raise LinkDown(f"{self.address} is cut off from what it reads")
                    if not here.deaf and now - met_s > _MEET_S:
                        met_s = now
                        if self._whom.elsewhere(here, self._others()):
                            raise LinkDown(f"others do not follow {self.address}")
                except QueueError:
                    if not over.is_set():
                        followed.stop()
                    return
        finally:
            link.close()

    def _others(self) -> Iterator[Seen]:
        """The servers that are not followed, as far as they answer."""
        for at, address in enumerate(self._addresses):
            if at != self._whom.at:
                with suppress(QueueError), Link(address, self._security, self._short) as link:
                    yield _seen(link.status(self._queue.name), at)

    def _there(self) -> int:
        """What is here, in the numbers there: also before the first connection of this life."""
        known = self._queue.status()["producers"].get(PRODUCER)
        return 0 if known is None else reached(known["next"], self._following.skipping)

    @property
    def _short(self) -> Patience:
        return Patience(patience_s=0.0, call_s=self._watch.silence_s)

    def _send_done(self) -> None:
        acks, (there, note) = self._acks, self._by_hand.last
        if there and acks is not None:
            try:
                acks.done(there, note)
            except QueueError:  # an ack was not taken: it is sent again on a new connection
                self._unfollow()

    def _unfollow(self) -> None:
        """Ends what is followed now; it is asked for anew, unless this is the end."""
        link = self._link
        if link is not None:
            link.stop()

    def _require_me(self, link: Link) -> None:
        """By hand, the leader's acks count, and not those of its other replica."""
        name, mine = self._queue.name, self._reader.partition(".")[0]
        required = [r for r in link.status(name)["required"] if r.partition(".")[0] != mine]
        link.require(name, [*required, self._reader])

    def _tell_others(self) -> None:
        """What is here need not be kept by the server that is not followed, either."""
        by_hand = self._following.by_hand
        while not self._stopped.wait(_TELL_S) and not self._following.holding:
            if by_hand and not self._eager.is_set():
                continue
            there, note = self._by_hand.last if by_hand else (self._there(), "")
            for address in [a for a in self._addresses if a != self.address]:
                with suppress(QueueError), Link(address, self._security, self._short) as link:
                    if by_hand:
                        self._require_me(link)
                    link.ack(self._queue.name, self._reader, there, note=note)

    def _take(self, link: Link) -> None:
        how = self._following
        producer = self._queue.open_producer(PRODUCER, counts="batches" if how.skipping else "tuples")
        there = reached(producer.next, how.skipping)
        if how.at_once and self._acks is not None:
            self._acks.done(there)
        if how.by_hand and self._eager.is_set():
            self._require_me(link)
            self._send_done()
        asked = {} if how.batch is None or self._eager.is_set() else {"min_tuples": how.batch}
        answers = link.follow(
            self._queue.name,
            there,
            reader=self._reader,
            compress="none" if self._eager.is_set() else how.compress,
            skip_trimmed=how.skipping,
            may_be_ahead=self._whom.several,
            **asked,
        )
        steps = Steps(there, self._marks, self._hole)
        for got in answers:
            unit = steps.came(got.first, got.note, got.batches)
            if unit.rows:
                self._append(unit, got, producer.epoch)
            elif unit.complete:
                self._progress(got, producer.epoch)

    def _append(self, unit: Unit, got: Received, epoch: int) -> None:
        how = self._following
        progress_us = got.progress_us if unit.complete and got.progress_us != NO_PROGRESS else None
        number = unit.end if how.skipping else unit.first
        done = self._queue.append(unit.batches, number, producer=PRODUCER, epoch=epoch, progress_us=progress_us)
        self.rows += unit.rows
        if how.by_hand:
            self._by_hand.appended(unit, done.end)
        if self.switched and "news_s" not in self.switched[-1]:
            self.switched[-1]["news_s"] = time.time()
        if how.at_once and self._acks is not None:
            self._acks.done(unit.end)

    def _progress(self, got: Received, epoch: int) -> None:
        if got.progress_us != NO_PROGRESS:
            self._queue.progress(got.progress_us, PRODUCER, epoch)


def _seen(told: dict[str, Any], at: int) -> Seen:
    return Seen(at, told["deaf"], frozenset(told["followed"]))


def _sum(a: WireBytes, b: WireBytes) -> WireBytes:
    return WireBytes(a.sent + b.sent, a.received + b.received, a.measured and b.measured)
