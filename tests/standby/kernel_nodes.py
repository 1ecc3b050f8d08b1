"""Runs nodes without Spark: queues in files, servers, relays and roles are real; the kernel runs in a thread.

As with Spark, a batch is planned and written down before it runs, runs again after a kill with the same input, and is
done when its sinks have it and its state is saved. A kill ends a node at any of these points; the next process goes on
from its files.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from kigen.cli.nodes.node_command import make_node
from kigen.cli.nodes.node_processes import unread
from kigen.connectors import open_source
from kigen.connectors.synthetic.source import SyntheticSource
from kigen.engine.nodes.node_options import NodeOptions
from kigen.engine.nodes.node_run import NodeRun
from kigen.engine.nodes.passive_node import PassiveNode
from kigen.engine.options import RunOptions
from kigen.engine.preparation import Links
from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.exchange.received import input_of_rows
from kigen.links import Link
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile
from kigen.plan.logical import LINK, App, SourceStream
from kigen.plan.tasks import extract_tasks
from kigen.queue import QueueError

PIECES = (0, 1, 3, 10, 30, 10_000)
Lines = dict[str, list[dict[str, Any]]]


class Killed(Exception):
    """Here and now."""


class KernelRun:
    """Takes the place of `kigen.engine.run.Run`."""

    rng = Random(0)  # shared by all runs
    given = 1 << 40  # how many rows of a source are there for now
    kernel = threading.Lock()  # a process has one connection for expressions

    def __init__(self, app: App, options: RunOptions, links: Links | None = None) -> None:
        assert links is not None
        assert options.checkpoint is not None
        self.app, self._links, self._folder = app, links, Path(options.checkpoint)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._tasks = extract_tasks(app)
        self._killed = threading.Event()
        self.error: BaseException | None = None
        done = self._load("done")
        self.saved: dict[str, Any] = done or {"places": {}, "states": {}, "marks": {}, "lines": {}, "finished": []}
        self._sources = {s.name: table_of(app, s) for s in app.streams if s.source.name != LINK}
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def finished(self) -> bool:
        return len(self.saved["finished"]) == len(self._tasks)

    @property
    def active(self) -> bool:
        if self.error is not None:
            raise self.error
        return not self.finished

    @property
    def progress(self) -> Any:
        return SimpleNamespace(queries={})

    def begin(self, spark: Any, ready: Any, warmed: bool = False) -> None:
        ready()
        if not self.finished:
            self._thread.start()

    def stop(self) -> Any:
        self._killed.set()
        if self._thread.ident is not None:
            self._thread.join()
        return SimpleNamespace(report=None)

    # --- the thread
    # ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with self.kernel:
                self._runtimes = {task.name: TaskRuntime(task, self.app) for task in self._tasks}
                for name, state in self.saved["states"].items():
                    self._runtimes[name].restore(state)
            for name, sink in self._links.sinks.items():
                sink.open(self.saved["marks"].get(name))
            with Link(self._links.access.server, self._links.access.security) as link:
                while not self.finished:
                    self._batch(link)
        except Killed:
            pass
        except BaseException as error:
            if not (isinstance(error, QueueError) and self._killed.is_set()):  # its server is closing
                self.error = error

    def _batch(self, link: Link) -> None:
        time.sleep(0.002)
        places = self.saved["places"]
        planned = self._load("planned")
        if planned is None or planned["from"] != places or planned["to"] == places:
            to = {task.name: self._next(link, task.name, task.streams) for task in self._tasks}
            planned = {"from": places, "to": to}
            self._save("planned", planned)
        self._may_die()
        lines: Lines = {}
        for task in self._tasks:
            at, to = places.get(task.name, {}), planned["to"][task.name]
            if at == to:
                continue
            inputs = {s: self._input(link, s, at.get(s, 0), to[s]) for s in task.streams if to[s] > at.get(s, 0)}
            with self.kernel:
                result = self._runtimes[task.name].step(inputs)
            for name, table in result.outputs.items():
                if name in self._links.sinks:
                    self._links.sinks[name].write(table)
                else:
                    lines.setdefault(name, []).extend(table.to_pylist())
            if result.finished:
                planned.setdefault("finished", []).append(task.name)
        self._may_die()
        marks = {name: sink.commit() for name, sink in self._links.sinks.items()}
        self._may_die()
        self._commit(planned, marks, lines)

    def _commit(self, planned: dict[str, Any], marks: dict[str, Any], lines: Lines) -> None:
        told = {name: self.saved["lines"].get(name, []) + more for name, more in lines.items()}
        with self.kernel:
            states = {name: runtime.snapshot() for name, runtime in self._runtimes.items()}
        saved = {
            "places": planned["to"],
            "states": states,
            "marks": marks,
            "lines": {**self.saved["lines"], **told},
            "finished": sorted({*self.saved["finished"], *planned.get("finished", [])}),
        }
        self._save("done", saved)
        self.saved = saved
        self._may_die()
        off: dict[str, int] = {}
        for places in planned["to"].values():
            for stream, at in places.items():
                off[stream] = min(off.get(stream, at), at)
        self._links.on_commit(off, off)
        if self._links.on_epoch is not None:
            self._links.on_epoch()

    def _next(self, link: Link, task: str, streams: tuple[str, ...]) -> dict[str, int]:
        """Chooses where the batch ends: anywhere up to what is there."""
        at = self.saved["places"].get(task, {})
        ends = {}
        for stream in streams:
            if stream in self._sources:
                there = min(KernelRun.given, self._sources[stream].num_rows + 1)
                ends[stream] = min(at.get(stream, 0) + self.rng.choice((0, 1, 3, 7, 12)), there)
            else:
                status = link.status(self._queue(stream))
                first = max(at.get(stream, 0), int(status["start"]))
                ends[stream] = min(first + self.rng.choice(PIECES), int(status["end"]))
        return ends

    def _input(self, link: Link, stream: str, first: int, end: int) -> StreamInput:
        if stream in self._sources:  # one more than there are: the end
            table = self._sources[stream]
            piece = table.slice(first, end - first)
            last = table.column("_ts")[min(end, table.num_rows) - 1].as_py()
            return StreamInput([piece] if piece.num_rows else [], progress_us=last, ended=end > table.num_rows)
        batches: list[pa.RecordBatch] = []
        while first < end:
            got = link.read(self._queue(stream), first, max_tuples=end - first)
            batches += got.batches
            first = got.next
        return input_of_rows(pa.Table.from_batches(batches), self._links.access.halting)

    def _queue(self, stream: str) -> str:
        return str(self.app.stream(stream).source.option("queue"))

    def _may_die(self) -> None:
        if self._killed.is_set():
            raise Killed

    def _load(self, name: str) -> Any:
        path = self._folder / name
        return pickle.loads(path.read_bytes()) if path.exists() else None

    def _save(self, name: str, value: Any) -> None:
        path = self._folder / f"{name}.new"
        path.write_bytes(pickle.dumps(value))
        path.rename(self._folder / name)


def table_of(app: App, stream: SourceStream) -> pa.Table:
    """Returns all rows that a synthetic stream gives."""
    source = open_source(stream, str(app.directory), True, None)
    assert isinstance(source, SyntheticSource)
    total = source.total()
    assert total is not None
    return source.read(source.piece(stream.name, 0, total, None, True)).table


def undisturbed(app: App) -> Lines:
    """Returns the lines of an undisturbed run: each stream at once, in one process."""
    lines: Lines = {}
    for task in extract_tasks(app):
        inputs = {s: StreamInput([table_of(app, app.stream(s))], ended=True) for s in task.streams}
        for name, table in TaskRuntime(task, app).step(inputs).outputs.items():
            lines.setdefault(name, []).extend(table.to_pylist())
    return lines


def bag(lines: Lines) -> dict[str, Counter[Any]]:
    return {
        name: Counter(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)
        for name, rows in lines.items()
    }


class Cluster:
    """Keeps all nodes of an app running, as `kigen up` does; `kill` ends one, which is started again a little later."""

    def __init__(
        self, parts: dict[str, NodePart], nodes: NodesFile, state: Path, own: Mapping[str, NodesFile] | None = None
    ) -> None:
        """`own`: the nodes file of a replica, if other nodes have other addresses for it."""
        self._parts, self._nodes, self._options, self._own = parts, nodes, NodeOptions(state), own or {}
        self._which = {
            (name if not i else f"{name}.{i}"): (name, i)
            for name in parts
            for i in range(len(nodes.entry(name).addresses))
        }
        self.running: dict[str, NodeRun | PassiveNode] = {}
        self._readers = {name: part.read_by for name, part in parts.items()}
        self._back_at = dict.fromkeys(self._which, 0.0)
        self.done: set[str] = set()
        self.lines: Lines = {}

    def look(self) -> None:
        """Does once what `kigen up` and the loops of the nodes do again and again."""
        for name, at in list(self._back_at.items()):
            if time.monotonic() >= at:
                del self._back_at[name]
                node, replica = self._which[name]
                self.running[name] = make_node(
                    self._parts, node, self._own.get(name, self._nodes), self._options, replica
                )
                self.running[name].begin(None, lambda: None)
        for name, node_run in list(self.running.items()):
            if name in self.running and not node_run.active:
                assert node_run.finished, name
                self._end_all(self._which[name][0])
        states = [(self._which[name][0], str(run.about()["state"])) for name, run in self.running.items()]
        for node in unread(self._readers, {self._which[name][0] for name in self.done}, states):
            self._end_all(node)

    def _end_all(self, node: str) -> None:
        for name in [n for n in self._which if self._which[n][0] == node]:
            self._end(name)

    def kill(self, name: str, away_s: float) -> None:
        self.running.pop(name).stop()
        self._back_at[name] = time.monotonic() + away_s

    def _end(self, name: str) -> None:
        self.done.add(name)
        self._back_at.pop(name, None)
        if name in self.running:
            ended = self.running[name]
            run = ended.run if isinstance(ended, NodeRun) else None
            self.running.pop(name).stop()
            if isinstance(run, KernelRun):
                self.lines |= run.saved["lines"]

    @property
    def all_done(self) -> bool:
        return len(self.done) == len(self._which)

    def close(self) -> None:
        for name in list(self.running):
            self.running.pop(name).stop()
