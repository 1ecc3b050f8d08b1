"""Cuts a random app over nodes at random and runs its parts with the kernel and queues in memory. The lines must be
those of the whole app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pyarrow as pa
from oracle.compare import line_difference, lines_of_table
from oracle.drive import Cutter, Outputs, run_kernel
from oracle.generate import generate
from oracle.render_cql import app_text
from oracle.shapes import App

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.blocks import FOREVER
from kigen.lifetimes.exchange.received import input_of_rows
from kigen.placement.cutting import NodePart, cut
from kigen.placement.from_plan import from_plan
from kigen.placement.network import Network, route_all
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.solver.assemble import assemble
from kigen.placement.solver.split import by_work
from kigen.plan import logical
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks

NODES = ("a", "b", "c")
Draw = Callable[[int], App]


def random_parts(app: App, plan: logical.App, rng: Random) -> dict[str, NodePart]:
    """Draws a cut. With links in a row only, b relays between a and c."""
    lines = [f"[nodes.{name}]\n" for name in NODES]
    if rng.random() < 0.5:
        lines += ['[[links]]\nbetween = ["a", "b"]\n', '[[links]]\nbetween = ["b", "c"]\n']
    lines += [f'[streams.{s.name}]\nborn = "{rng.choice(NODES)}"\nrate = 100\n' for s in app.streams]
    lines += ["[results]\n", *(f'{q.name} = "{rng.choice(NODES)}"\n' for q in app.queries)]
    file = parse_nodes("".join(lines))
    planned = from_plan(plan, file)
    problem = planned.problem
    where = {o.name: rng.choice(NODES) for o in problem.operators}
    placed = assemble(problem, where, route_all(Network(problem), where), by_work(problem), 0.0, "random")
    return cut(plan, file, planned, placed)


class Nodes:
    """Every task of every part, with its position in each queue that it reads."""

    def __init__(self, app: App, parts: dict[str, NodePart], rng: Random, halting: bool) -> None:
        self._rng, self._halting = rng, halting
        self.queues: dict[str, list[pa.Table]] = {name: [] for part in parts.values() for name in part.made}
        self._work = []
        for part in parts.values():
            for task in extract_tasks(part.app):
                linked = {s for s in task.streams if part.app.stream(s).source.name == logical.LINK}
                born = tuple(s for s in task.streams if s not in linked)
                cutter = Cutter(app, born, rng, rng.choice(("whole", "mixed", "single"))) if born else None
                self._work.append((part, task, [TaskRuntime(task, part.app)], cutter, dict.fromkeys(linked, 0)))
        self.outputs: Outputs = {q.name: [] for q in app.queries}
        self._app = app

    def run(self) -> None:
        idle = 0
        while idle < 200:
            for part, task, runtime, cutter, places in self._rng.sample(self._work, len(self._work)):
                inputs = cutter.next() if cutter is not None and cutter.open else {}
                for stream, at in places.items():
                    inputs[stream], places[stream] = self._received(stream, at)
                result = runtime[0].step(inputs)
                for name, table in result.outputs.items():
                    if name in part.made:
                        self.queues[name] += [table.slice(i, 1) for i in range(table.num_rows)]
                    else:
                        self.outputs[name] += lines_of_table(table, self._app.query(name))
                if self._rng.random() < 0.1:
                    saved = runtime[0].snapshot()
                    runtime[0] = TaskRuntime(task, part.app)
                    runtime[0].restore(saved)
                idle = idle + 1 if result.finished else 0

    def _received(self, stream: str, at: int) -> tuple[StreamInput, int]:
        queue = self.queues[stream]
        end = min(len(queue), at + self._rng.choice((0, 1, 3, 10, 10_000)))
        return (input_of_rows(pa.concat_tables(queue[at:end]), self._halting), end) if end > at else (StreamInput(), at)


def cut_app(seed: int, draw: Draw = generate) -> tuple[App, logical.App, dict[str, NodePart], Random]:
    """Returns a random app and its parts."""
    app = draw(seed)
    plan = bind(app_text(app))
    rng = Random(f"{seed} over nodes")
    return app, plan, random_parts(app, plan, rng), rng


def judged_over_nodes(seed: int, draw: Draw = generate) -> str:
    app, plan, parts, rng = cut_app(seed, draw)
    whole = run_kernel(app, plan, "dt", Random(f"{seed} whole"), "whole")
    over = Nodes(app, parts, rng, halting=rng.random() < 0.3)
    over.run()
    found = [
        f"seed {seed}, query {q.name}: {apart}"
        for q in app.queries
        if (apart := line_difference(whole[q.name], over.outputs[q.name]))
    ]
    return "\n".join(found)


def rows_of(part: NodePart, queues: dict[str, list[pa.Table]], rng: Random) -> dict[str, list[dict[str, object]]]:
    """Returns the rows that a node sends whose streams all come from other nodes. It reads in random pieces, and its
    tasks are saved and loaded at random."""
    sent: dict[str, list[dict[str, object]]] = {}
    for task in extract_tasks(part.app):
        runtime, places = TaskRuntime(task, part.app), dict.fromkeys(task.streams, 0)
        while any(places[s] < len(queues[s]) for s in task.streams):
            inputs = {}
            for stream, at in places.items():
                end = places[stream] = min(len(queues[stream]), at + rng.choice((0, 1, 3, 10, 10_000)))
                if end > at:
                    inputs[stream] = input_of_rows(pa.concat_tables(queues[stream][at:end]), halting=True)
            for name, table in runtime.step(inputs).outputs.items():
                sent.setdefault(name, []).extend(table.to_pylist())
            if rng.random() < 0.2:
                saved = runtime.snapshot()
                runtime = TaskRuntime(task, part.app)
                runtime.restore(saved)
    return sent


def unlike_replicas(seed: int, draw: Draw = generate) -> str:
    """Compares two replicas of a node that read the same rows, each in its own pieces. They must send the same rows in
    the same order."""
    app, _, parts, rng = cut_app(seed, draw)
    for part in parts.values():
        part.app = replace(part.app, replicated=True, sharing=False)
    over = Nodes(app, parts, rng, halting=True)
    over.run()
    found = []
    for part in parts.values():
        if part.made and all(s.source.name == logical.LINK for s in part.app.streams):
            first, second = (rows_of(part, over.queues, Random(f"{seed} replica {i}")) for i in range(2))
            found += [
                f"seed {seed}, node {part.node}, {name}: rows differ"
                for name in part.made
                if first[name] != second[name]
            ]
    return "\n".join(found)


def lines_of(app: App, part: NodePart, queues: dict[str, list[pa.Table]], rng: Random) -> Outputs:
    """Returns the lines of a node whose streams all come from other nodes, and which reads in random pieces."""
    outputs: Outputs = {}
    for task in extract_tasks(part.app):
        runtime, places = TaskRuntime(task, part.app), dict.fromkeys(task.streams, 0)
        while any(places[s] < len(queues[s]) for s in task.streams):
            inputs = {}
            for stream, at in places.items():
                end = places[stream] = min(len(queues[stream]), at + rng.choice((0, 1, 3, 10, 10_000)))
                if end > at:
                    inputs[stream] = input_of_rows(pa.concat_tables(queues[stream][at:end]))
            for name, table in runtime.step(inputs).outputs.items():
                if name not in part.made:
                    outputs.setdefault(name, []).extend(lines_of_table(table, app.query(name)))
    return outputs


def unlike_without_births(seed: int) -> tuple[str, int]:
    """Takes births out of received relations, as FIRM does. The lines must be the same whether their deaths are still
    read or not. Returns what differs, and how many deaths were without their births."""
    app, _, parts, rng = cut_app(seed)
    over = Nodes(app, parts, rng, halting=False)
    over.run()
    found, orphans = [], 0
    for part in parts.values():
        if not part.app.streams or any(s.source.name != logical.LINK for s in part.app.streams):
            continue
        kept: dict[str, list[pa.Table]] = {}
        clean: dict[str, list[pa.Table]] = {}
        for stream in (s.name for s in part.app.streams):
            gone, held = set[int](), set[int]()  # holders; several tuples may have the same
            kept[stream], clean[stream] = [], []
            for row in over.queues[stream]:
                one = row.to_pylist()[0]
                is_birth, is_dropped = one.get("_at", one.get("_from")) is not None, rng.random() < 0.3
                if is_birth and one.get("_to") == FOREVER:
                    (gone if is_dropped else held).add(one["_holder"])
                if is_birth and is_dropped:
                    continue
                is_orphan = not is_birth and one.get("_holder") in gone - held
                kept[stream].append(row)
                clean[stream] += [] if is_orphan else [row]
                orphans += is_orphan
        first, second = (lines_of(app, part, rows, Random(f"{seed} {i}")) for i, rows in enumerate((kept, clean)))
        found += [
            f"seed {seed}, node {part.node}, query {name}: {apart}"
            for name in sorted({*first, *second})
            if (apart := line_difference(first.get(name, []), second.get(name, [])))
        ]
    return "\n".join(found), orphans
