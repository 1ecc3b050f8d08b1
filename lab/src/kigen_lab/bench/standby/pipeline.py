"""Runs one pipeline of real nodes for `kigen bench standby`: source -> up -> mid -> down, with or without a standby for
mid.

`kigen up` runs as a process, and its nodes are asked as `kigen status` asks them. The stream has no end; the pipeline
ends with the `with` block. Payload bytes are what senders count per reader. Wire bytes are what TCP carried to each
relay. CPU is that of a node's whole process tree, from /proc.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from kigen.links import TOKEN, Link, Patience, Security, read_secret
from kigen.placement.from_plan import name_operators
from kigen.plan import bind
from kigen.queue import QueueError
from kigen_lab.bench.worker import ContestantFailed
from kigen_lab.servers.ports import free_ports

Reports = dict[str, dict[str, Any]]
_PATIENCE_S = 600.0
PERIOD_S = 5.0  # time between copies (passive)
QUERIES = {
    "selection": "SELECT id, road, speed FROM cars [RANGE 2 SECONDS] WHERE speed > 50",
    "window": "SELECT road, COUNT(*) AS cars, AVG(speed) AS speed FROM cars [RANGE 2 SECONDS] GROUP BY road",
}
_ASK = Patience(patience_s=0.0, call_s=1.0)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Contestant:
    """One cell. `batch` None is never full (upstream). `standby` None has no standby: a killed node is started again
    from its checkpoint.
    """

    standby: str | None
    batch: int | None = None
    compress: str = "none"

    @property
    def label(self) -> str:
        if self.standby is None:
            return "restart"
        return {"active": "AS = 1", "upstream": "UB", "passive": "passive"}.get(self.standby, str(self.batch))


@dataclass(frozen=True)
class Snapshot:
    """What all nodes report at one moment, and the CPU time of their processes."""

    at_s: float
    reports: Reports
    cpu_s: dict[str, float]

    @property
    def leader(self) -> str:
        return next(
            name
            for name in ("mid", "mid.1")
            if name in self.reports and self.reports[name]["role"] in ("leads", "alone")
        )

    @property
    def other(self) -> str:
        return "mid" if self.leader == "mid.1" else "mid.1"

    def sent(self, by: str, reader: str, what: str) -> int:
        return sum(int(t[what]) for key, t in self.reports[by]["sent"].items() if key.rpartition("/")[2] == reader)

    def wire(self, node: str) -> int:
        ways = (
            [*self.reports[node]["from"].values(), self.reports[node].get("copy", {})] if node in self.reports else []
        )
        return sum(int(way.get("wire_bytes", 0)) for way in ways)

    def copied(self, node: str) -> int:
        """Returns the bytes of copies that a node fetched."""
        return int(self.reports.get(node, {}).get("copy", {}).get("sent_bytes", 0))


class Pipeline:
    """A running `kigen up`."""

    def __init__(
        self, folder: Path, contestant: Contestant, query: str, rate: float, seed: int, silence_s: float
    ) -> None:
        self._folder = folder
        up, mid, other, down = free_ports(4)
        self._addresses = {
            "up": up,
            "mid": mid,
            **({} if contestant.standby is None else {"mid.1": other}),
            "down": down,
        }
        self._near = 2 * rate + (contestant.batch or 0)  # rows, with watermark rows, that a follower may be behind
        self._other = "copies" if contestant.standby == "passive" else "stands by"
        folder.mkdir(parents=True)
        app = (
            f"CREATE STREAM cars (id BIGINT, road BIGINT, speed DOUBLE) FROM synthetic (rate = {rate:g}, arrivals = "
            "'poisson',\n"
            f"  seed = {seed}, id = 'sequence', road = 'zipf(1.2, 50)', speed = 'uniform(0, 100)');\n"
            f"CREATE QUERY wanted AS {QUERIES[query]};\n"
        )
        (folder / "app.cql").write_text(app, encoding="utf-8")
        (folder / "nodes.toml").write_text(
            _nodes_text(contestant, app, (up, mid, other, down), silence_s), encoding="utf-8"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Pipeline:
        command = [sys.executable, "-m", "kigen.cli.main", "up", "app.cql", "--nodes", "nodes.toml", "--output", "out"]
        with open(self._folder / "up.log", "wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_PATIENCE_S)

    def until(self, there: Callable[[Reports], bool], what: str, every_s: float = 0.05) -> Reports:
        """Waits until a condition holds, and returns the nodes' reports. A node that does not answer is left out."""
        assert self._process is not None
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise ContestantFailed(
                    f"kigen up ended with exit code {self._process.returncode} (log: {self._folder / 'up.log'})"
                )
            reports = {name: about for name in self._addresses if (about := self._ask(name)) is not None}
            if there(reports):
                return reports
            time.sleep(every_s)
        raise ContestantFailed(f"not within {_PATIENCE_S:.0f} s: {what} (log: {self._folder / 'up.log'})")

    def steady(self) -> Reports:
        """Waits until all nodes work and the follower has caught up."""
        wanted = sorted(["alone"] * 3 if "mid.1" not in self._addresses else ["alone", "alone", "leads", self._other])

        def there(reports: Reports) -> bool:
            running = len(reports) == len(self._addresses) and all(
                at_work(about, self._near) for about in reports.values()
            )
            return (
                running and sorted(about["role"] for about in reports.values()) == wanted and rows_at_down(reports) > 0
            )

        return self.until(there, "all nodes at work")

    def snapshot(self) -> Snapshot:
        reports = self.steady()
        return Snapshot(time.time(), reports, {name: tree_cpu_s(about["pid"]) for name, about in reports.items()})

    def kept_at_up(self, seconds: float) -> float:
        """Returns the average number of tuples that up keeps over that time."""
        found, until = list[int](), time.monotonic() + seconds
        while time.monotonic() < until:
            about = self._ask("up")
            if about is not None:
                found.append(sum(int(queue["kept_tuples"]) for queue in about["queues"].values()))
            time.sleep(0.2)
        return mean(found) if found else 0.0

    def kill(self, name: str, reports: Reports) -> float:
        os.kill(reports[name]["pid"], signal.SIGKILL)
        return time.time()

    def _ask(self, name: str) -> dict[str, Any] | None:
        try:
            security = Security(read_secret(self._folder / "nodes.state" / TOKEN))
            with Link(f"127.0.0.1:{self._addresses[name]}", security, _ASK) as link:
                return link.about()
        except (QueueError, FileNotFoundError):  # no node has started yet
            return None


def at_work(about: dict[str, Any], near: float) -> bool:
    """Checks that a node works.

    A replica that keeps copies must have one. A follower must not be further behind than `near`: if the leader is
    killed again at once, it is not warm. A lazy follower gets nothing as long as the leader delivers in time.
    """
    if about["role"] == "stands by":
        here = sum(int(about["queues"][stream]["kept_tuples"]) for stream in about["from"])
        if (here if about["behind"] is None else about["behind"]) > near:
            return False
    return about["state"] == "running" or (about["role"] == "copies" and about["copy"]["age_s"] is not None)


def rows_at_down(reports: Reports) -> int:
    return sum(int(way["rows"]) for way in reports["down"]["from"].values()) if "down" in reports else 0


def switches(reports: Reports) -> list[dict[str, float]]:
    """Returns the changes of down to another server."""
    return [s for way in reports["down"]["from"].values() for s in way["switched"]] if "down" in reports else []


def tree_cpu_s(root: int) -> float:
    """Returns user and system time of a process, its living descendants and their dead children."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(int(v) for v in fields[11:15])
    tree, found = {root}, {root}
    while found:
        found = {pid for pid, parent in parents.items() if parent in found} - tree
        tree |= found
    return sum(used.get(pid, 0) for pid in tree) / _TICKS


def _nodes_text(contestant: Contestant, app: str, ports: tuple[int, ...], silence_s: float) -> str:
    up, mid, other, down = ports
    lines = [f'[nodes.up]\naddress = "127.0.0.1:{up}"', f'[nodes.mid]\naddress = "127.0.0.1:{mid}"']
    if contestant.standby is not None:
        lines += [
            f'standby = "{contestant.standby}"\nstandby_address = "127.0.0.1:{other}"\nsilence = "{silence_s:g} s"'
        ]
        lines += [f'compress = "{contestant.compress}"'] + (
            [] if contestant.batch is None else [f"batch = {contestant.batch}"]
        )
        lines += [f'period = "{PERIOD_S:g} s"'] if contestant.standby == "passive" else []
    lines += [
        f'[nodes.down]\naddress = "127.0.0.1:{down}"',
        '[streams.cars]\nborn = "up"',
        '[results]\ndefault = "down"',
    ]
    lines += [f'[operators."{name}"]\nnodes = ["mid"]' for name in name_operators(bind(app)).values()]
    return "\n".join(lines) + "\n"
