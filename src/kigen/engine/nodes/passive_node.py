"""A node with `standby = "passive"`: one replica leads, the other keeps copies of its files, with a warm Spark and
nothing running on it.

The leader is a `NodeRun`. Every period, when a batch is done and before the next begins, it puts hard links to its
checkpoint and what its output queues keep into a folder, which the other fetches (`kigen.links.copies.offered`,
`fetching`). Inputs are not copied: the nodes before keep them from where the newest whole copy would go on, and send
them again to whoever takes over (`kigen.replicas.passive_election` says when). Invariant: nothing is acknowledged to
the nodes before that the files of either replica would still ask for. Cost: the bytes that changed a period; two short
calls a ping; a Spark that does nothing.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kigen.durable import POWER
from kigen.engine.nodes.copy_fetcher import Copier
from kigen.engine.nodes.node_options import NodeOptions, reader_token, replicated, security_of
from kigen.engine.nodes.node_run import CHECKPOINT, QUEUES, Lodging, NodeRun, open_queue
from kigen.engine.nodes.replica_folders import GIVEN, Lives
from kigen.engine.nodes.standby_rules import replica_name
from kigen.engine.nodes.version_check import meet
from kigen.engine.options import RunOptions
from kigen.engine.run import warm
from kigen.links import REPLICA, STATUS, LinkServer, OfferedCopies, copy_info, link_tree
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.file import NodesFile
from kigen.queue import QueueError, UnknownCopy
from kigen.replicas.passive_election import COPIES, DONE, LEADS, UNDECIDED, Me, next_role
from kigen.spark.links.link_source import Access

_log = logging.getLogger(__name__)
_LEFT_OUT = frozenset({"owner.json", "owner.lock", "spool"})  # of one process only
_LINGER_S = 2.0  # for the other to hear that all is done


class PassiveNode:
    """In place of a `NodeRun`, for whoever runs a node. `tell` hears of changes of role."""

    def __init__(
        self,
        parts: Mapping[str, NodePart],
        name: str,
        nodes: NodesFile,
        options: NodeOptions,
        replica: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        entry = nodes.entry(name)
        self.part, self.options, self.replica, self.name = parts[name], options, replica, replica_name(name, replica)
        self._parts, self._nodes, self._tell, self._entry = parts, nodes, tell, entry
        self._security = security = security_of(nodes, name, options.state)
        self._lives = Lives(options.state / self.name, entry.durability == POWER)
        self._copies = OfferedCopies(options.state / self.name / GIVEN, entry.period_us / 1e6)
        self._leading: NodeRun | None = None
        self._needs: dict[str, int] | None = None  # inputs that its copy goes back to, until they are here
        self._role, self._state, self._spark = UNDECIDED, "starting", None
        self._position = self._position_of_files()
        self._up_at, self._began = time.monotonic(), time.time()
        self._asked_since: float | None = None
        self._both_since: float | None = None
        self._done_at: float | None = None
        self._access = Access(
            entry.addresses[replica], reader_token(security, options.state / self.name), security.roots, halting=True
        )
        before = {stream: nodes.entry(node).addresses for stream, node in self.part.received.items()}
        self._copier = Copier(
            entry.addresses[1 - replica],
            before,
            security.as_role(REPLICA),
            self._lives,
            entry.silence_us / 1e6,
            entry.compress,
            entry.durability == POWER,
        )
        self._server = LinkServer((), entry.addresses[replica], security, self.about, lambda: bool(self._unheard))
        self._server.copies = self

    # --- for whoever runs it -----------------------------------------------------------------------------------------

    @property
    def needs_spark(self) -> bool:
        return bool(self.part.app.queries)

    def begin(self, spark: Any, ready: Callable[[], None]) -> None:
        self._spark = spark
        meet(self._entry.addresses[1 - self.replica], self._security.as_role(STATUS))
        if spark is not None:
            warm(
                spark,
                replicated(self.part),
                RunOptions(**self.options.run_options(True, self._entry.durability)),
                self._access,
            )
        self._state = "ready"
        ready()
        self._up_at = time.monotonic()
        self._state = "deciding"

    @property
    def active(self) -> bool:
        self._take_role()
        leading, limit_s = self._leading, self.options.duration_s
        if leading is None:
            return self._role != DONE and (limit_s is None or time.monotonic() - self._up_at < limit_s)
        if self._needs is not None:
            leading.check()
            if leading.hold(self._needs):
                self._needs = None
                leading.begin(self._spark, lambda: None, warmed=True)
            return True
        if self._done_at is None:
            if leading.active:
                return True
            if not leading.finished:
                return False  # stopped, or failed: `stop` will say
            self._role, self._done_at = DONE, time.monotonic()
        return not self._copier.heard_role(DONE) and time.monotonic() - self._done_at < _LINGER_S

    @property
    def finished(self) -> bool:
        return self._role == DONE

    def stop(self) -> dict[str, Any] | None:
        self._copier.close()
        try:
            return None if self._leading is None else self._leading.stop()
        finally:
            self._server.close()
            self._copies.close()

    def about(self) -> dict[str, Any]:
        leading = self._leading
        if leading is not None:
            told = leading.about()
            told["copies"] = {**self._copies.given.to_json(), "every_s": self._entry.period_us / 1e6}
            return {**told, "role": LEADS, "state": "fetching inputs" if self._needs is not None else told["state"]}
        told = {"node": self.name, "role": self._role, "pid": os.getpid(), "state": self._state}
        up_s = round(time.time() - self._began, 1)
        return {
            **told,
            "up_s": up_s,
            "from": {},
            "sent": {},
            "queues": {},
            "queries": {},
            "copy": self._copier.to_json(),
        }

    # --- for the other replica: `kigen.links.flight.server.CopyProvider`
    # ----------------------------------------------------------

    def news(self) -> dict[str, Any]:
        leading = self._leading
        followed = leading is not None and leading.unfollowed_s == 0
        newest = self._copies.asked() if leading is not None else None
        told = {"role": self._role, "position": self._at, "followed": followed, "unheard": self._unheard}
        return {**told, "copy": newest, "life": self._copies.life}

    def listed(self, copy: int) -> dict[str, Any]:
        return self._copies.listed(copy)

    def pieces(self, copy: int, pieces: list[Any], compress: str) -> bytes:
        return self._copies.pieces(copy, pieces, compress)

    def done(self, copy: int) -> dict[str, Any]:
        """The other has it: inputs before it are not needed any more, by either."""
        told, leading = self._copies.done(copy), self._leading
        if leading is None:
            raise UnknownCopy(f"copy {copy}: {self.name} does not lead any more")
        leading.copied(told["starts"])
        return {}

    # --- inside ------------------------------------------------------------------------------------------------------

    def _take_role(self) -> None:
        now, other = time.monotonic(), self._copier.other()
        asked_at = max(self._server.asked.values(), default=-float("inf"))
        if now - asked_at > 1 + 2 * self._entry.silence_us / 1e6:
            self._asked_since = None
        elif self._asked_since is None:
            self._asked_since = min(asked_at, now - 1e-3)
        both = self._role == LEADS and other.heard and other.role == LEADS
        self._both_since = (self._both_since or now) if both else None
        me = Me(
            self.replica,
            self._role,
            self._at,
            now - self._up_at,
            0.0 if self._asked_since is None else now - self._asked_since,
            self._copier.saw_it_lead,
            0.0 if self._leading is None else self._leading.unfollowed_s,
            0.0 if self._both_since is None else now - self._both_since,
            self._copier.hears_s,
        )
        role, why = next_role(me, other) if self._state != "starting" and self._done_at is None else (self._role, "")
        if role == self._role:
            return
        self._tell(f"node {self.name} {_TOLD[role]}: {why}")
        if role == LEADS:
            self._lead()
        elif role == COPIES:
            self._rest()
        self._role = role

    def _lead(self) -> None:
        self._copier.pause()
        self._copies.forget()
        folder = self._lives.begin()
        told = copy_info(folder, whole=False) or {}
        self._leading = NodeRun(
            self._parts,
            self.part.node,
            self._nodes,
            self.options,
            self.replica,
            Lodging(self._server, folder, self._whole),
        )
        self._needs = told.get("needs", {})

    def _rest(self) -> None:
        self._state = "stopping its query"
        leading, self._leading = self._leading, None
        if leading is not None:
            self._position = self._position_of(leading.queues)
            leading.stop()
        self._lives.rest()
        self._server.asked.clear()
        self._state = "copying"
        self._copier.go_on()

    def _whole(self, run: NodeRun) -> None:
        """Between two batches: what lies in the files now is what a kill would leave."""
        if not self._copies.due:
            return
        try:
            self._copies.make(lambda folder: self._fill(run, folder))
        except (OSError, QueueError) as error:  # a full disk, say: the copy before stays, and inputs are kept meanwhile
            _log.warning("no copy was made: %s", error)

    def _fill(self, run: NodeRun, folder: Path) -> dict[str, Any]:
        assert self._lives.newest is not None
        checkpoint = self._lives.newest / CHECKPOINT
        if checkpoint.exists():
            link_tree(checkpoint, folder / CHECKPOINT, _LEFT_OUT)
        starts, needs = {}, {}
        for name, queue in run.queues.items():
            received = name in self.part.received
            start, _ = queue.save(folder / QUEUES / name, rows=not received)
            if received:
                starts[name], needs[name] = start, int(queue.status()["end"])
        return {"starts": starts, "needs": needs, "position": self._position_of(run.queues)}

    @property
    def _unheard(self) -> list[str]:
        leading = self._leading
        return [] if leading is None else leading.unheard

    @property
    def _at(self) -> int:
        copied = self._copier.position
        return self._position if copied is None else copied

    def _position_of(self, queues: Mapping[str, Any]) -> int:
        """How far files are: rows given, and rows taken that nobody needs any more."""
        told = {name: queue.status() for name, queue in queues.items()}
        return sum(int(status["start" if name in self.part.received else "end"]) for name, status in told.items())

    def _position_of_files(self) -> int:
        folder = self._lives.newest
        if folder is None:
            return 0
        if self._lives.copy is not None:
            return int((copy_info(folder) or {}).get("position", 0))
        queues = {
            name: open_queue(self.part, name, folder, self._entry.durability)
            for name in self.part.plans
            if (folder / QUEUES / name).exists()
        }
        try:
            return self._position_of(queues)
        finally:
            for queue in queues.values():
                queue.close()


_TOLD = {LEADS: "leads", COPIES: "keeps copies", DONE: "ends"}
