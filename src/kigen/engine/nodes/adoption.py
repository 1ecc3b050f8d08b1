"""Brings the files of one node to the version of the app that its state directory follows.

`follows.json` in the node's folder says which version that was. A node that follows an older one adopts the new part at
its start: its run changes as `kigen run` does (`kigen.engine.changes`), by the digests of its own queries and streams.
A batch or epoch of the old part that was not committed is finished first, so queues that only the old part had stay
open until then; afterwards they are removed. Invariant: each step may be done again after a kill. A node of another
placement, or of a later version, is refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from kigen.durable import POWER, replace
from kigen.engine.checkpoint.app_record import read_record
from kigen.engine.nodes.node_queues import QUEUES, open_queue
from kigen.placement.cutting import NodePart, SentStream
from kigen.placement.stored import PlacementMismatch
from kigen.plan.logical import LINK, App, PlanNode, Query, Received, Scan
from kigen.queue import Queue

CHECKPOINT = "checkpoint"  # below a node's folder
FILE = "follows.json"
_NO_BOUND = 1 << 62  # nobody reads the last rows of a stream that is dropped


@dataclass(frozen=True)
class Version:
    """A version of a placed app. `began_as`: fingerprint of the first one."""

    began_as: str
    change: int


@dataclass
class Adoption:
    """What a node has to do to follow a version. `former`: queues that only the app before the change has."""

    folder: Path
    target: Version | None  # None: the node's app cannot change
    is_due: bool = False
    former: dict[str, Queue] = field(default_factory=dict)
    former_sent: tuple[Query, ...] = ()

    @staticmethod
    def of(folder: Path, target: Version | None, part: NodePart, durability: str) -> Adoption:
        """Raises PlacementMismatch for a folder of another placement."""
        found = Adoption(folder, target)
        if target is None:
            return found
        followed = _followed(folder, target)
        if followed.began_as != target.began_as or followed.change > target.change:
            raise PlacementMismatch(
                f"{folder} belongs to another placement, or to a later version of it: restore placement.json beside "
                "it, or give another --state directory to start from the beginning"
            )
        found.is_due = followed.change < target.change
        if not found.is_due:
            found._note(durability == POWER)
        elif not part.app.queries:
            shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)  # the state of a part that is gone
        else:
            found._open_former(part, durability)
        return found

    def _open_former(self, part: NodePart, durability: str) -> None:
        record = read_record(self.folder / CHECKPOINT, version("kigen"))
        if record is None:
            return
        gone = [q for q in record.queries if q.sent and q.name not in part.plans]
        plans = {q.name: q.root for q in gone} | _received(record.app(part.app), part.plans)
        for name, plan in plans.items():
            if (self.folder / QUEUES / name).is_dir():
                self.former[name] = open_queue(SentStream(plan), name, self.folder, durability, _NO_BOUND)
        self.former_sent = tuple(q for q in gone if q.name in self.former)

    def done(self, kept: Collection[str], durability: str) -> None:
        """Removes what only the old part had. Its queues must not be served any more."""
        if not self.is_due:
            return
        for queue in self.former.values():
            queue.close()
        self.former, self.former_sent, self.is_due = {}, (), False
        queues = self.folder / QUEUES
        for found in queues.iterdir() if queues.is_dir() else ():
            if found.name not in kept:
                shutil.rmtree(found)
        self._note(durability == POWER)

    def _note(self, sync: bool) -> None:
        assert self.target is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"began_as": self.target.began_as, "change": self.target.change}
        replace(self.folder / FILE, json.dumps(body).encode(), sync)


def _followed(folder: Path, target: Version) -> Version:
    """Returns the version that a node's files follow. Those of an older Kigen follow the first; new ones the newest."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Version(str(found["began_as"]), int(found["change"]))
    except FileNotFoundError:
        has_files = (folder / CHECKPOINT).exists() or (folder / QUEUES).exists()
        return Version(target.began_as, 0 if has_files else target.change)
    except (ValueError, KeyError, TypeError):  # torn by a power cut: to adopt once more does no harm
        return Version(target.began_as, 0)


def _received(app: App, kept: Mapping[str, object]) -> dict[str, PlanNode]:
    """Returns the streams from other nodes that an app reads, without those that are kept, each as a plan."""
    names = {s.name for s in app.streams if s.source.name == LINK and s.name not in kept}
    nodes = [node for query in app.queries for node in query.root.walk()]
    return {n.stream: n for n in nodes if isinstance(n, Scan | Received) and n.stream in names}


def forget_node(folder: Path) -> None:
    """Removes the state of a node that has nothing to do any more, but not its log."""
    for name in (CHECKPOINT, QUEUES):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (FILE, "report.json"):
        (folder / name).unlink(missing_ok=True)
