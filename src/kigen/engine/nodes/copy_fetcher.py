"""Watches the other replica of a passive pair and fetches copies of the leader's files, in two threads.

One thread asks the other replica again and again whether it leads, which copy it offers, and which upstream nodes it
cannot reach; this replica then tries to reach those itself. The other thread fetches the newest copy while this replica
does not lead, and confirms it when it is whole. Invariant: a copy is confirmed only when it has taken the place of the
one before.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kigen.engine.nodes.replica_folders import ReplicaFolders
from kigen.links import Link, Patience, Security, fetch
from kigen.queue import QueueError
from kigen.replicas.roles import LEADS, UNDECIDED, OtherReplica

_log = logging.getLogger(__name__)
_ASK_S, _LOOK_S = 0.2, 0.1
_CALL_S = 30.0  # of a list or of pieces


class CopyFetcher:
    def __init__(
        self,
        address: str,
        upstream: Mapping[str, Sequence[str]],
        security: Security,
        folders: ReplicaFolders,
        silence_s: float,
        compress: str,
        sync: bool = True,
    ) -> None:
        """`upstream`: the streams that the node reads, and the addresses that serve each of them."""
        self._address, self._upstream, self._security, self._folders = address, upstream, security, folders
        self._silence_s, self._compress, self._sync = silence_s, compress, sync
        self._stopped, self._fetching = threading.Event(), threading.Event()
        self._other, self._offered = OtherReplica(), ("", 0)  # which copy is offered: the leader's run, the number
        self._have = ("", 0)
        self.saw_other_lead = False
        self._other_cut_off_since: float | None = None
        self.position: int | None = None  # of the newest copy
        self.copies = self.sent_bytes = self.plain_bytes = self.wire_bytes = 0
        self._last: dict[str, Any] = {}
        self._at: float | None = None  # when the newest was whole
        self._threads = [
            threading.Thread(target=work, name=f"copy {address}", daemon=True) for work in (self._ask, self._fetch)
        ]
        for thread in self._threads:
            thread.start()

    def other(self) -> OtherReplica:
        return self._other

    @property
    def other_cut_off_s(self) -> float:
        """Returns for how long this replica has reached upstream nodes that the other could not."""
        since = self._other_cut_off_since
        return 0.0 if since is None else time.monotonic() - since

    def other_has_role(self, role: str) -> bool:
        return self._other.answers and self._other.role == role

    def go_on(self) -> None:
        self._fetching.set()

    def pause(self) -> None:
        self._fetching.clear()
        self._offered = self._have  # what is offered now will be old when this replica copies again
        self.position = None  # the files go on from there

    def close(self) -> None:
        self._stopped.set()
        self._fetching.clear()
        for thread in self._threads:
            thread.join(2 * self._silence_s)

    def to_json(self) -> dict[str, Any]:
        age = None if self._at is None else round(time.monotonic() - self._at, 1)
        counted = {
            "copies": self.copies,
            "sent_bytes": self.sent_bytes,
            "plain_bytes": self.plain_bytes,
            "wire_bytes": self.wire_bytes,
        }
        return {"from": self._address, "heard": self._other.answers, "age_s": age, **counted, "last": self._last}

    def _ask(self) -> None:
        link = Link(self._address, self._security, Patience(patience_s=0.0, call_s=self._silence_s))
        try:
            while not self._stopped.wait(_ASK_S):
                try:
                    told = link.connection.call("copy_news")
                except Exception as error:  # whatever it is, there was no answer, and this thread must go on
                    if not isinstance(error, QueueError):
                        _log.warning("the other replica could not be asked: %r", error)
                    self._other, self._other_cut_off_since = replace(self._other, answers=False), None
                    continue
                role, unheard = str(told.get("role", UNDECIDED)), told.get("unheard") or []
                followed, position = bool(told.get("followed")), int(told.get("position", 0))
                self._other = OtherReplica(True, role, position, followed, bool(unheard))
                reached = bool(unheard) and self._reaches(unheard)
                self._other_cut_off_since = (self._other_cut_off_since or time.monotonic()) if reached else None
                self.saw_other_lead = self.saw_other_lead or role == LEADS
                number = told.get("copy")
                if number is not None:
                    self._offered = (str(told.get("life")), int(number))
        finally:
            link.close()

    def _reaches(self, streams: Sequence[str]) -> bool:
        return all(
            any(self._answers(address, stream) for address in self._upstream.get(stream, ())) for stream in streams
        )

    def _answers(self, address: str, stream: str) -> bool:
        if self._stopped.is_set():
            return False
        with (
            suppress(QueueError),
            Link(address, self._security, Patience(patience_s=0.0, call_s=self._silence_s)) as link,
        ):
            link.status(stream)
            return True
        return False

    def _fetch(self) -> None:
        while not self._stopped.wait(_LOOK_S):
            offered = self._offered
            if not self._fetching.is_set() or offered == self._have or not self.other_has_role(LEADS):
                continue
            try:
                self._fetch_one(offered)
            except (QueueError, OSError) as error:
                # the leader is gone, or has a newer copy, or this disk is full: the copy before stays
                _log.info("a copy was not fetched: %s", error)
                self._stopped.wait(_ASK_S)

    def _fetch_one(self, offered: tuple[str, int]) -> None:
        began, part = time.monotonic(), self._folders.part()
        link = Link(self._address, self._security, Patience(patience_s=0.0, call_s=_CALL_S))
        try:
            got = fetch(
                link,
                offered[1],
                self._folders.copy,
                part,
                self._compress,
                lambda: not self._fetching.is_set(),
                self._sync,
            )
            if got is None or not self._folders.finish(part):
                return
            took_s, self._at = time.monotonic() - began, time.monotonic()
            self._have, self.position = offered, int(got.info.get("position", 0))
            self.copies += 1
            self.sent_bytes += got.sent_bytes
            self.plain_bytes += got.plain_bytes
            self._last = {
                "files": got.files,
                "changed": got.changed,
                "sent_bytes": got.sent_bytes,
                "took_s": round(took_s, 3),
            }
            link.connection.call("copy_done", copy=offered[1])
        finally:
            self.wire_bytes += link.wire().received
            link.close()
            shutil.rmtree(part, ignore_errors=True)
