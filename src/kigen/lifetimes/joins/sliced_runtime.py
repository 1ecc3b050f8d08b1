"""Runs a task over a shared join whose slices run apart: each slice, with the queries of its windows, has a clock of
its own.

Tuples are taken in once, at the time of the first slice, which is the task's. A later slice goes as far as its `Move`
says, never ahead of the slice before it. The queries of a slice are a **branch**: all operators above their share of
the join, run as in any task (TaskRuntime), over the pairs that the slices up to theirs have found. A tuple that a slice
skips (its stream's buffer had no room for it, or the policy refused it) is absent for the queries of the slice: it is
in none of their pairs and in no other window. Invariant: the lines are those of a task that runs whole, over the tuples
that are present for the query. Cost: that of the join (kigen.lifetimes.joins.sliced_join), and one step of its
operators per branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kigen.lifetimes import runtime
from kigen.lifetimes.accounting import Holding, Ledger, holdings, served_by
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, StreamBlock
from kigen.lifetimes.codec import decode, encode
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.lifetimes.joins.pairing import JoinScope
from kigen.lifetimes.joins.shared_join import Pairs
from kigen.lifetimes.joins.sliced_join import SlicedJoin, Spans
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.runtime import DT, Give, StepResult, TaskRuntime, Watch, late_rows
from kigen.plan.logical import App, PlanNode, Scan
from kigen.plan.shared_joins.share_nodes import JoinShare, SharedJoin, reach
from kigen.plan.tasks import Task


@dataclass(frozen=True)
class Move:
    """How far a slice goes: up to `until` (FOREVER: to the end of its streams), having run on `tuples` tuples. `absent`
    has, per stream, the first and last birth of the tuples that it skips, then those of the next such span, and so
    on."""

    until: int
    tuples: int = 0
    absent: dict[str, tuple[int, ...]] = field(default_factory=dict)


class SlicedRuntime:
    """Runs a task whose slices have clocks of their own."""

    def __init__(self, task: Task, app: App, mode: str = DT) -> None:
        self.task = task
        (shared,) = {node.child for query in task.queries for node in query.root.walk() if isinstance(node, JoinShare)}
        self._shared = shared
        self._streams = [_stream(child) for child in shared.children]
        self._intakes = {name: Intake(app.stream(name)) for name in task.streams}
        self._join = SlicedJoin(shared, JoinScope(None, app.secret))
        self._branches = [_branch(task, app, mode, span) for span in shared.reaches]
        self._clocks = [BEFORE_TIME] * len(self._branches)
        self._absent: list[dict[str, Spans]] = [{} for _ in self._branches]

    def step(
        self, inputs: dict[str, StreamInput], give: Give | None = None, moves: Sequence[Move | None] | None = None
    ) -> StepResult:
        """Takes a step. `moves` are those of the slices after the first, None for a slice that stays. Without `moves`,
        all slices keep up with the first."""
        result = StepResult()
        outputs: dict[str, list[pa.Table]] = {}
        give = give or (lambda name, table: outputs.setdefault(name, []).append(table))
        accepted = [self._intakes[name].take_in(given) for name, given in inputs.items()]
        result.late = late_rows(self._intakes)
        self._count(result, sum(a for a, _ in accepted), sum(b for _, b in accepted), moves)
        until = min(intake.progress for intake in self._intakes.values())
        self._take_in(until)
        targets = self._targets(until, moves)
        for first, last in self._together(targets):
            self._go(first, last, targets[first], give)
        self._forget()
        result.outputs = {name: pa.concat_tables(tables) for name, tables in outputs.items()}
        result.finished = all(branch.finished for branch in self._branches)
        result.next_event_us = self.next_event_us
        return result

    @property
    def next_event_us(self) -> int | None:
        """The next time at which something happens even if nothing arrives; None: never."""
        due = min(branch.due for branch in self._branches)
        return None if due == FOREVER else due

    def _count(self, result: StepResult, taken: int, late: int, moves: Sequence[Move | None] | None) -> None:
        """Counts a tuple for a query when the query's slice runs on it."""
        for place, branch in enumerate(self._branches):
            move = None if moves is None or not place else moves[place - 1]
            mine = taken if moves is None or not place else 0 if move is None else move.tuples
            result.counts |= {query.name: {"in": mine, "late": late} for query in branch.task.queries}

    def _take_in(self, until: int) -> None:
        released = {name: intake.release(until) for name, intake in self._intakes.items()}
        if any(len(block) for block in released.values()):
            left, right = (released[name] for name in self._streams)
            self._join.take_in(left, right, until)
            for branch in self._branches:
                branch.hand_on(released)

    def _targets(self, until: int, moves: Sequence[Move | None] | None) -> list[int]:
        """Returns where each slice goes: no farther than the slice before it, and never back."""
        targets = [max(self._clocks[0], until)]
        for place, clock in enumerate(self._clocks[1:], 1):
            move = None if moves is None else moves[place - 1]
            if move is not None:
                self._leave_out(place, move.absent)
            wanted = targets[-1] if moves is None else clock if move is None else move.until
            targets.append(max(clock, min(wanted, targets[-1])))
        return targets

    def _leave_out(self, place: int, absent: dict[str, tuple[int, ...]]) -> None:
        mine = self._absent[place]
        for stream, bounds in absent.items():
            mine[stream] = mine.get(stream, Spans()).added(bounds)

    def _together(self, targets: list[int]) -> list[tuple[int, int]]:
        """Returns the first and last of each group of slices that make the same move, without those that stay."""
        ways = list(zip(self._clocks, targets, strict=True))
        firsts = [i for i in range(len(ways)) if i == 0 or ways[i] != ways[i - 1]] + [len(ways)]
        return [(first, after - 1) for first, after in pairwise(firsts) if ways[first][1] > ways[first][0]]

    def _go(self, first: int, last: int, target: int, give: Give) -> None:
        since = self._clocks[first]
        end = max((at for intake in self._intakes.values() if (at := intake.last) is not None), default=None)
        stop = target if target != FOREVER else since if end is None else max(since, end + 1)
        halts = [*self._join.milestones(since, stop, runtime.STEP_TUPLES), stop] if stop > since else []
        for before, until in pairwise([since, *halts]):
            pairs = self._join.run(first, last, before, until, self._spans(first))
            for place in range(first, last + 1):
                self._branches[place].advance(until, self._there(pairs, place), self._absent[place], give)
        for place in range(first, last + 1):
            self._clocks[place] = target
            if target == FOREVER:
                self._branches[place].finish(end, give)

    def _spans(self, place: int) -> tuple[Spans, Spans]:
        left, right = (self._absent[place].get(stream, Spans()) for stream in self._streams)
        return left, right

    def _there(self, pairs: Pairs, place: int) -> Pairs:
        """Drops the pairs of tuples that are absent for the slice's queries."""
        left, right = self._spans(place)
        return (
            pairs.only(~(left.holds(pairs.anchors[0]) | right.holds(pairs.anchors[1])))
            if left.first or right.first
            else pairs
        )

    def _forget(self) -> None:
        passed = self._clocks[-1]
        self._join.forget(passed)
        oldest = self._join.oldest(passed)
        self._absent = [{stream: spans.since(oldest) for stream, spans in mine.items()} for mine in self._absent]

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def tuples_held(self) -> int:
        held = sum(intake.held for intake in self._intakes.values())
        return held + self._join.held + sum(branch.tuples_held for branch in self._branches)

    @property
    def waiting(self) -> int:
        """Number of tuples that the first slice has not reached yet."""
        return sum(intake.held for intake in self._intakes.values())

    @property
    def watch(self) -> Watch | None:
        return self._branches[0].watch

    @watch.setter
    def watch(self, watch: Watch | None) -> None:
        for branch in self._branches:
            branch.watch = watch

    def memory(self) -> list[Holding]:
        """Reports what each operator holds."""
        ledger = Ledger()
        found = [held for branch in reversed(self._branches) for held in branch.memory(ledger)]
        nodes, serves = self._accounted
        return found + holdings(nodes, [self._join, *self._intakes.values()], serves, ledger)

    @cached_property
    def _accounted(self) -> tuple[list[PlanNode], list[tuple[str, ...]]]:
        """The nodes of the join and of the streams, and the queries of each."""
        scans = {
            node.stream: node for query in self.task.queries for node in query.root.walk() if isinstance(node, Scan)
        }
        nodes = [self._shared, *(scans[stream] for stream in self._intakes)]
        return nodes, served_by(nodes, self.task.queries)

    def snapshot(self) -> bytes:
        return encode(
            {
                "clocks": self._clocks,
                "intakes": {name: intake.state() for name, intake in self._intakes.items()},
                "join": self._join.state(),
                "branches": [branch.state() for branch in self._branches],
                "absent": [
                    {stream: [spans.first, spans.last] for stream, spans in mine.items()} for mine in self._absent
                ],
            }
        )

    def restore(self, data: bytes) -> None:
        tree = decode(data)
        self._clocks = tree["clocks"]
        for name, saved in tree["intakes"].items():
            self._intakes[name].load(saved)
        self._join.load(tree["join"])
        for branch, saved in zip(self._branches, tree["branches"], strict=True):
            branch.load(saved)
        self._absent = [
            {s: Spans(tuple(first), tuple(last)) for s, (first, last) in mine.items()} for mine in tree["absent"]
        ]


class _Feed(Operator):
    """Stands in for the shared join in a branch: gives the pairs that the slices have found."""

    pairs: Pairs

    def step(self, inputs: list[Message], now: int) -> Message:
        return self.pairs


class _Branch(TaskRuntime):
    """Runs the queries of one slice. Its intakes hold only what it reads apart from the join."""

    def __init__(self, task: Task, app: App, mode: str) -> None:
        self._feed = _Feed()
        super().__init__(task, app, mode)
        scanned = [child for node in self._nodes if not isinstance(node, SharedJoin) for child in node.children]
        self._beside = {child.stream for child in scanned if isinstance(child, Scan)}

    def _make(self, node: PlanNode, number: int) -> Any:
        return self._feed if isinstance(node, SharedJoin) else super()._make(node, number)

    def hand_on(self, released: dict[str, StreamBlock]) -> None:
        for stream in self._beside:
            self._intakes[stream].hand_on(released[stream])

    def advance(self, now: int, pairs: Pairs, absent: dict[str, Spans], give: Give) -> None:
        self._feed.pairs = pairs
        for stream in self._beside & absent.keys():
            self._intakes[stream].leave_out(absent[stream].holds)
        self._advance(now, give)

    def finish(self, last: int | None, give: Give) -> None:
        for query in self.task.queries:
            self._finish(query, last, give)


def _branch(task: Task, app: App, mode: str, span: int) -> _Branch:
    mine = [query for query in task.queries if _reach(query.root) == span]
    return _Branch(replace(task, queries=tuple(mine)), app, mode)


def _reach(root: PlanNode) -> int:
    (share,) = {node for node in root.walk() if isinstance(node, JoinShare)}
    return reach(share.sizes)


def _stream(child: PlanNode) -> str:
    assert isinstance(child, Scan), "a stream of another query is not sliced"
    return child.stream
