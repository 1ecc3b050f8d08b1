"""A task at work: its operators in order, its clock, its state. Blocks in, result lines out; no clock, no files, no Spark.

Time is the least progress of the task's streams; a step advances it and runs every operator once. A query ends at the last timestamp of
its own streams: time stops there on the way, so what is written does not depend on what else the task computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kigen.lifetimes.aggregate import AggregateOperator
from kigen.lifetimes.alive import State
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, Block, Fills, StreamBlock
from kigen.lifetimes.canonical import ordered
from kigen.lifetimes.codec import decode, encode
from kigen.lifetimes.counting import CountingOperator
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.lifetimes.join import DirectJoin, NegativeJoin
from kigen.lifetimes.join_shares import JoinShareOperator
from kigen.lifetimes.lines import Lines
from kigen.lifetimes.needed import needed_columns
from kigen.lifetimes.negatives import Negatives
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.received import ReceivedIntake
from kigen.lifetimes.select import FilterOperator, ProjectOperator, UnionOperator
from kigen.lifetimes.sent import END_OF_TIME, SentRows
from kigen.lifetimes.shared_join import SharedJoinOperator
from kigen.lifetimes.streams import ToStreamOperator
from kigen.lifetimes.windows import WindowOperator, make_window
from kigen.plan.nodes import Aggregate, App, Filter, Join, Node, Project, Query, Received, Scan, ToStream, UnionAll, Window
from kigen.plan.shared_join import JoinShare, SharedJoin
from kigen.plan.tasks import Task

Give = Callable[[str, pa.Table], None]  # a query's lines
DT, NT = "dt", "nt"
RUN_OUT_STEPS = 2_000
STEP_TUPLES = 1 << 17  # of a stream in one advance: larger arrays cost more a tuple, in page faults and cache misses


@dataclass
class StepResult:
    """Lines a query (c0.., and `_from`, `_to` or `_at`), tuples counted a query, whether all is done, and when something is due."""

    outputs: dict[str, pa.Table] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    finished: bool = False
    next_event_us: int | None = None


class TaskRuntime:
    def __init__(self, task: Task, app: App, mode: str = DT) -> None:
        if mode not in (DT, NT):
            raise ValueError(f"lifetime method {mode!r}; write 'dt' or 'nt'")
        self.task, self._signed, self._replicated = task, mode == NT, app.replicated
        self._nodes = list(dict.fromkeys(n for query in task.queries for n in query.root.walk()))
        relations = {n.stream for n in self._nodes if isinstance(n, Received)}
        self._intakes = {s: ReceivedIntake(app.stream(s)) if s in relations else Intake(app.stream(s)) for s in task.streams}
        if self._signed and (relations or any(q.sent for q in task.queries)):
            raise ValueError("between nodes tuples carry lifetimes: the method must be 'dt'")
        self._place = {node: i for i, node in enumerate(self._nodes)}
        self._children = [[self._place[child] for child in node.children] for node in self._nodes]
        self._roots = {q.name: self._place[q.root] for q in task.queries}
        self._needed = needed_columns(self._nodes, task.queries)
        self._operators = [self._make(node, task.first_number + i + 1) for i, node in enumerate(self._nodes)]
        self._lines = {q.name: SentRows(q) if q.sent else Lines(q, self._signed) for q in task.queries}
        self._streams = {q.name: q.streams for q in task.queries}
        self._now = BEFORE_TIME

    def _make(self, node: Node, number: int) -> Any:
        if isinstance(node, Scan):
            return self._intakes[node.stream]
        if isinstance(node, Window):
            window = make_window(node, number)
            return Negatives(window, number) if self._signed else window
        if isinstance(node, Filter):
            return FilterOperator(node)
        if isinstance(node, Project):
            return ProjectOperator(node)
        if isinstance(node, UnionAll):
            return UnionOperator(node, number, self._signed)
        if isinstance(node, Join):
            return NegativeJoin(node, number) if self._signed else DirectJoin(node, number, self._replicated)
        if isinstance(node, SharedJoin):
            return SharedJoinOperator(node, number)
        if isinstance(node, JoinShare):
            return JoinShareOperator(node, number, self._signed)
        if isinstance(node, Aggregate):
            return AggregateOperator(node, number, self._signed, self._needed[node])
        if isinstance(node, ToStream):
            return ToStreamOperator(node, self._signed)
        return CountingOperator(node, number, self._signed)

    # --- steps ---------------------------------------------------------------------------------------------------

    def step(self, inputs: dict[str, StreamInput], give: Give | None = None) -> StepResult:
        """Lines are given to `give` as they come, or lie in the result."""
        result = StepResult()
        accepted: dict[str, tuple[int, int]] = {}
        for name, given in inputs.items():
            accepted[name] = self._intakes[name].take_in(given)
        for query in self.task.queries:
            shares = [accepted.get(s, (0, 0)) for s in self._streams[query.name]]
            result.counts[query.name] = {"in": sum(a for a, _ in shares), "late": sum(b for _, b in shares)}
        outputs: dict[str, list[pa.Table]] = {}
        give = give or (lambda name, table: outputs.setdefault(name, []).append(table))
        for jump in (given.jump for given in inputs.values() if given.jump is not None):
            for name, lines in self._lines.items():
                if isinstance(lines, SentRows):
                    give(name, lines.jump(jump))
        target = min(intake.progress for intake in self._intakes.values())
        for stop, ending in self._stops(target):
            if stop == END_OF_TIME:
                self._run_out(give)
            elif stop > self._now:
                self._advance(stop, give)
            for query in ending:
                self._finish(query, self._last(query), give)
        result.outputs = {name: pa.concat_tables(tables) for name, tables in outputs.items()}
        result.finished = all(lines.finished for lines in self._lines.values())
        result.next_event_us = None if self.due == FOREVER else self.due
        return result

    @property
    def due(self) -> int:
        """When something will happen though nothing arrives."""
        return min((op.wanted if isinstance(op, Intake) else op.next_event for op in self._operators), default=FOREVER)

    def _stops(self, target: int) -> list[tuple[int, list[Query]]]:
        """Where time must halt on its way to `target`: at the end of each query that ends, and at the target itself; between them
        so often that the arrays of a step stay small enough for the processor's caches."""
        ends: dict[int, list[Query]] = {}
        for query in self.task.queries:
            intakes = [self._intakes[s] for s in self._streams[query.name]]
            if self._lines[query.name].finished or not all(i.ended for i in intakes):
                continue
            last = self._last(query)
            stop = self._now if last is None else last + 1
            if query.sent and self._runs_out(query) and stop <= target:
                ends.setdefault(stop, [])
                stop = END_OF_TIME
            if stop <= target:
                ends.setdefault(stop, []).append(query)
        final = max(ends, default=self._now) if target == FOREVER else target
        for intake in self._intakes.values():
            for milestone in intake.milestones(STEP_TUPLES):
                if self._now < milestone < final:
                    ends.setdefault(milestone, [])
        if target != FOREVER:
            ends.setdefault(target, [])
        return sorted(ends.items())

    def _last(self, query: Query) -> int | None:
        """The last timestamp of its streams: where it ends."""
        return max((at for s in self._streams[query.name] if (at := self._intakes[s].last) is not None), default=None)

    def _run_out(self, give: Give) -> None:
        """From event to event, so that no death is told before it happens, as it would not be if tuples still arrived; but not without
        end: beyond many events, the rest at once (a line's death may then be known at the very end where it would be left open)."""
        for _ in range(RUN_OUT_STEPS):
            due = min((op.next_event for op in self._operators), default=FOREVER)
            if due >= END_OF_TIME:
                break
            self._advance(max(due, self._now) + 1, give, marked=False)
        self._advance(END_OF_TIME, give, marked=False)

    def _runs_out(self, query: Query) -> bool:
        """Whoever receives a query's rows may go on beyond its last timestamp: it is told all that is still to happen, which is
        finite unless something happens at every multiple of a span."""
        return not any(isinstance(n, ToStream) and n.every_us is not None for n in query.root.walk())

    def _advance(self, now: int, give: Give, marked: bool = True) -> None:
        messages: list[Message] = []
        for children, operator in zip(self._children, self._operators, strict=True):
            if isinstance(operator, Intake):
                messages.append(operator.release(now))
            else:
                inputs = [messages[child] for child in children]
                if isinstance(operator, (WindowOperator, Negatives)):
                    stream = inputs[0]
                    assert isinstance(stream, StreamBlock)
                    messages.append(operator.step(stream, now))
                else:
                    given = operator.step(inputs, now)
                    messages.append(ordered(given) if self._replicated and isinstance(given, Block) else given)
        self._now = now
        for query in self.task.queries:
            lines = self._lines[query.name]
            table = None if lines.finished else lines.step(messages[self._roots[query.name]], now if marked else None)
            if table is not None:
                give(query.name, table)

    def _finish(self, query: Query, last: int | None, give: Give) -> None:
        rest = self._lines[query.name].finish(self._known_ends(query), last)
        if rest is not None:
            give(query.name, rest)

    def _known_ends(self, query: Query) -> Fills:
        """Deaths ahead that are settled, for the rows of a query that ends (the direct method wrote them with the rows)."""
        if not self._signed or query.root.is_stream:
            return Fills.none()
        known: dict[Node, Fills] = {}
        for node in query.root.walk():
            operator = self._operators[self._place[node]]
            if isinstance(operator, Negatives):
                known[node] = operator.known_ends()
            elif isinstance(operator, Operator):
                known[node] = operator.known_ends([known.get(child, Fills.none()) for child in node.children])
        return known.get(query.root, Fills.none())

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def operators(self) -> tuple[Any, ...]:
        """In the order they run, for those who measure them."""
        return tuple(self._operators)

    @property
    def tuples_held(self) -> int:
        held: int = sum(op.held for op in self._operators)
        return held + sum(lines.held for lines in self._lines.values())

    def snapshot(self) -> bytes:
        return encode(self.state())

    def restore(self, data: bytes) -> None:
        self.load(decode(data))

    def state(self) -> State:
        operators = [op.state() for op in self._operators]
        return {"now": self._now, "operators": operators, "lines": {name: lines.state() for name, lines in self._lines.items()}}

    def load(self, tree: State) -> None:
        self._now = tree["now"]
        for operator, saved in zip(self._operators, tree["operators"], strict=True):
            operator.load(saved)
        for name, saved in tree["lines"].items():
            self._lines[name].load(saved)
