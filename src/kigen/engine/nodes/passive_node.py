"""Runs a replica of a node with `standby = "passive"`: it leads, or it keeps copies of the leader's files with a warm
Spark and nothing running on it.

The leader is a `NodeRun`. Every period, when an epoch is done and before the next begins, it puts hard links to its
checkpoint, and the rows that its output queues keep, into a folder. The follower fetches that folder
(`kigen.links.copies`). Inputs are not copied: the upstream nodes keep them from where the newest whole copy would go
on, and send them again to the replica that takes over (`kigen.replicas.passive_election` decides when). Invariant:
nothing is acknowledged to the upstream nodes that the files of either replica would still ask for. Cost: the bytes that
changed per period, two short calls per ping, and a Spark that does nothing.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from kigen.durable import POWER
from kigen.engine.nodes.copy_contents import fill_copy, position_at_start, position_of
from kigen.engine.nodes.copy_fetcher import CopyFetcher
from kigen.engine.nodes.node_options import NodeOptions, reader_token, replicated, security_of
from kigen.engine.nodes.node_run import NodeRun, PassiveHost
from kigen.engine.nodes.replica_folders import GIVEN, ReplicaFolders
from kigen.engine.nodes.standby_rules import kind_of
from kigen.engine.nodes.version_check import require_same_software_there
from kigen.engine.options import RunOptions
from kigen.engine.preparation import warm
from kigen.links import REPLICA, STATUS, LinkServer, OfferedCopies, copy_info
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile
from kigen.queue import QueueError, UnknownCopy
from kigen.replicas.passive_election import PassiveElection
from kigen.replicas.replica_names import replica_name
from kigen.replicas.roles import COPIES, DONE, LEADS
from kigen.spark.links.link_source import Access

_log = logging.getLogger(__name__)
_LINGER_S = 2.0  # for the other replica to notice that everything is delivered


class PassiveNode:
    """Takes the place of a `NodeRun` for the process of a node. `tell` is called with a line per change of role."""

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
        self._folders = ReplicaFolders(options.state / self.name, entry.durability == POWER)
        self._copies = OfferedCopies(options.state / self.name / GIVEN, entry.period_us / 1e6)
        self._leading: NodeRun | None = None
        self._needs: dict[str, int] | None = None  # inputs that its copy goes back to, until they are here
        self._kind = kind_of(parts, name, nodes)
        self._election = PassiveElection(replica, entry.silence_us / 1e6, up_at_s=time.monotonic())
        self._state, self._spark = "starting", None
        self._position = position_at_start(self.part, self._folders, entry.durability)
        self._began = time.time()
        self._done_at: float | None = None
        self._access = Access(
            entry.addresses[replica], reader_token(security, options.state / self.name), security.roots, halting=True
        )
        upstream = {stream: nodes.entry(node).addresses for stream, node in self.part.received.items()}
        self._fetcher = CopyFetcher(
            entry.addresses[1 - replica],
            upstream,
            security.as_role(REPLICA),
            self._folders,
            entry.silence_us / 1e6,
            entry.compress,
            entry.durability == POWER,
        )
        self._server = LinkServer((), entry.addresses[replica], security, self.about, lambda: bool(self._cut_off_from))
        self._server.copies = self

    # --- for the process of the node ---------------------------------------------------------------------------------

    @property
    def needs_spark(self) -> bool:
        return bool(self.part.app.queries)

    def begin(self, spark: Any, ready: Callable[[], None]) -> None:
        self._spark = spark
        require_same_software_there(self._entry.addresses[1 - self.replica], self._security.as_role(STATUS))
        if spark is not None:
            warm(
                spark,
                replicated(self.part),
                RunOptions(**self.options.run_options(self._entry.period_us / 1e6, self._entry.durability)),
                self._access,
            )
        self._state = "ready"
        ready()
        self._election.up_at_s = time.monotonic()
        self._state = "deciding"

    @property
    def active(self) -> bool:
        self._take_role()
        leading, limit_s = self._leading, self.options.duration_s
        if leading is None:
            return self._role != DONE and (limit_s is None or time.monotonic() - self._election.up_at_s < limit_s)
        if self._needs is not None:
            leading.check()
            if leading.has_inputs(self._needs):
                self._needs = None
                leading.begin(self._spark, lambda: None, warmed=True)
            return True
        if self._done_at is None:
            if leading.active:
                return True
            if not leading.finished:
                return False  # stopped, or failed: `stop` raises the cause
            self._role, self._done_at = DONE, time.monotonic()
        return not self._fetcher.other_has_role(DONE) and time.monotonic() - self._done_at < _LINGER_S

    @property
    def finished(self) -> bool:
        return self._role == DONE

    def stop(self) -> dict[str, Any] | None:
        self._fetcher.close()
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
            "copy": self._fetcher.to_json(),
        }

    # --- for the other replica, as a `kigen.links.flight.server.CopyProvider` ----------------------------------------

    def news(self) -> dict[str, Any]:
        leading = self._leading
        followed = leading is not None and leading.unfollowed_s == 0
        newest = self._copies.asked() if leading is not None else None
        told = {
            "role": self._role,
            "position": self._files_position,
            "followed": followed,
            "unheard": self._cut_off_from,
        }
        return {**told, "copy": newest, "life": self._copies.life}

    def listed(self, copy: int) -> dict[str, Any]:
        return self._copies.listed(copy)

    def pieces(self, copy: int, pieces: list[Any], compress: str) -> bytes:
        return self._copies.pieces(copy, pieces, compress)

    def done(self, copy: int) -> dict[str, Any]:
        """Notes that the follower has this copy: neither replica needs the inputs before it any more."""
        told, leading = self._copies.done(copy), self._leading
        if leading is None:
            raise UnknownCopy(f"copy {copy}: {self.name} does not lead any more")
        leading.copied(told["starts"])
        return {}

    # --- roles -------------------------------------------------------------------------------------------------------

    @property
    def _role(self) -> str:
        return self._election.role

    @_role.setter
    def _role(self, role: str) -> None:
        self._election.role = role

    def _take_role(self) -> None:
        other, leading = self._fetcher.other(), self._leading
        this = self._election.observe(
            time.monotonic(),
            other,
            asked_at_s=max(self._server.asked.values(), default=None),
            position=self._files_position,
            saw_other_lead=self._fetcher.saw_other_lead,
            unfollowed_s=0.0 if leading is None else leading.unfollowed_s,
            other_cut_off_s=self._fetcher.other_cut_off_s,
        )
        if self._state == "starting" or self._done_at is not None:
            return
        role, why = self._kind.next_role(this, other)
        if role == self._role:
            return
        self._tell(f"node {self.name} {_ANNOUNCED[role]}: {why}")
        if role == LEADS:
            self._lead()
        elif role == COPIES:
            self._rest()
        self._role = role

    def _lead(self) -> None:
        self._fetcher.pause()
        self._copies.forget()
        folder = self._folders.begin()
        told = copy_info(folder, whole=False) or {}
        self._leading = NodeRun(
            self._parts,
            self.part.node,
            self._nodes,
            self.options,
            self.replica,
            PassiveHost(self._server, folder, self._offer_copy),
        )
        self._needs = told.get("needs", {})

    def _rest(self) -> None:
        self._state = "stopping its query"
        leading, self._leading = self._leading, None
        if leading is not None:
            self._position = position_of(self.part, leading.queues)
            leading.stop()
        self._folders.rest()
        self._server.asked.clear()
        self._state = "copying"
        self._fetcher.go_on()

    def _offer_copy(self, run: NodeRun) -> None:
        """Makes a copy, if one is due. It is called between two epochs, when the files are as a kill would leave
        them."""
        if not self._copies.due:
            return
        live = self._folders.newest
        assert live is not None
        try:
            self._copies.make(lambda folder: fill_copy(self.part, live, run.queues, folder))
        except (OSError, QueueError) as error:  # such as a full disk: the copy before stays, and inputs are kept
            _log.warning("no copy was made: %s", error)

    @property
    def _cut_off_from(self) -> list[str]:
        leading = self._leading
        return [] if leading is None else leading.cut_off_from

    @property
    def _files_position(self) -> int:
        copied = self._fetcher.position
        return self._position if copied is None else copied


_ANNOUNCED = {LEADS: "leads", COPIES: "keeps copies", DONE: "ends"}
