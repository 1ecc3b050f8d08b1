"""Runs a task: its operators in order, its clock and its state. Blocks go in, result lines come out. It reads no clock,
does no I/O and knows nothing of Spark.

Time is the least watermark of the task's streams. A step advances it and runs every operator once. A query ends at the
last timestamp of its own streams, and time stops there on the way; so its lines do not depend on what else the task
computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from kigen.lifetimes.accounting import Holding, Ledger, holdings, lines_holding, served_by
from kigen.lifetimes.blocks import BEFORE_TIME, FOREVER, Block, Fills
from kigen.lifetimes.chunks import State
from kigen.lifetimes.codec import decode, encode
from kigen.lifetimes.exchange.received import ReceivedIntake
from kigen.lifetimes.exchange.replica_order import ordered
from kigen.lifetimes.exchange.sent import END_OF_TIME, SentRows
from kigen.lifetimes.expressions.evaluation import install
from kigen.lifetimes.intake import Intake, StreamInput
from kigen.lifetimes.needed import needed_columns
from kigen.lifetimes.operator import Message, Operator
from kigen.lifetimes.operator_spec import OperatorContext
from kigen.lifetimes.registry import spec_of
from kigen.lifetimes.results.writers import writers_of
from kigen.lifetimes.sweeps.time_cuts import cut
from kigen.lifetimes.windows.table_rows import TableIntake
from kigen.plan.changes.digests import digests_of
from kigen.plan.logical import App, PlanNode, Query, Received, Scan, SourceStream, Window
from kigen.plan.tasks import Task

Give = Callable[[str, pa.Table], None]  # takes results of a query, by the name of the output
Watch = Callable[[PlanNode, int], None]  # gets the operator that runs next, and the time it advances to
DT, NT = "dt", "nt"
RUN_OUT_STEPS = 2_000  # events after the end of the streams that are run one by one
# Tuples of a stream in one advance: larger arrays cost more per tuple, in page faults and cache misses.
STEP_TUPLES = 1 << 17


@dataclass
class StepResult:
    """Result of a step: tables per output (`Query.gives`: c0.., and `_from`, `_to`, or `_at`, or `_at`, `_op`), tuples
    counted per query, whether all queries have ended, and when the next event is due."""

    outputs: dict[str, pa.Table] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    finished: bool = False
    next_event_us: int | None = None
    late: dict[str, pa.Table] = field(default_factory=dict)  # late tuples of streams with LATE INTO


def late_rows(intakes: Mapping[str, Intake]) -> dict[str, pa.Table]:
    """Returns the late tuples that a step has dropped, of streams with LATE INTO."""
    found = {name: intake.late.take() for name, intake in intakes.items()}
    return {name: table for name, table in found.items() if table is not None}


def _intake_kind(stream: SourceStream, is_relation: bool) -> type[Intake]:
    return TableIntake if stream.changes else ReceivedIntake if is_relation else Intake


class TaskRuntime:
    """Runs the operators of one task by the method `mode`."""

    def __init__(self, task: Task, app: App, mode: str = DT) -> None:
        if mode not in (DT, NT):
            raise ValueError(f"the lifetime method must be 'dt' or 'nt'; got {mode!r}")
        self.task, self._signed, self._replicated, self._secret = task, mode == NT, app.replicated, app.secret
        began = task.former or task.queries  # operators have the numbers and the columns that they began with
        self._began_with = list(dict.fromkeys(n for query in began for n in query.root.walk()))
        numbers = {node: task.first_number + i for i, node in enumerate(self._began_with, 1)}
        self._nodes = list(dict.fromkeys(n for query in task.queries for n in query.root.walk()))
        relations = {n.stream for n in self._nodes if isinstance(n, Received)}
        self._intakes = {s: _intake_kind(app.stream(s), s in relations)(app.stream(s)) for s in task.streams}
        if self._signed and (relations or any(q.sent for q in task.queries)):
            raise ValueError("tuples between nodes carry lifetimes, so the lifetime method must be 'dt'")
        install(app.functions)
        self._place = {node: i for i, node in enumerate(self._nodes)}
        self._children = [[self._place[child] for child in node.children] for node in self._nodes]
        self._roots = {q.name: self._place[q.root] for q in task.queries}
        self._order = _order(self._nodes)
        self._last_turn = self._last_turns()
        self._needed = needed_columns(self._began_with, began)
        self._operators = [self._make(node, numbers[node]) for node in self._nodes]
        self._results = {q.name: writers_of(q, self._signed, app.secret, app.replicated) for q in task.queries}
        self._writers = {name: writer for mine in self._results.values() for name, writer in mine.items()}
        self._streams = {q.name: q.streams for q in task.queries}
        tables = {s.name for s in app.streams if s.table}  # they neither end a query nor count as input
        self._timed = {q.name: tuple(s for s in q.streams if s not in tables) for q in task.queries}
        self._now = BEFORE_TIME
        self.watch: Watch | None = None  # called before each operator; must be cheap, may raise to end the step

    def _make(self, node: PlanNode, number: int) -> Any:
        if isinstance(node, Scan):
            return self._intakes[node.stream]
        context = OperatorContext(number, self._signed, self._needed[node], self._secret, self._replicated)
        return spec_of(node).build(node, context)

    def _last_turns(self) -> list[int]:
        """Returns the turn after which each operator's message is not read any more. Results are written at the very
        end."""
        turns = [0] * len(self._nodes)
        for turn, place in enumerate(self._order):
            for child in self._children[place]:
                turns[child] = turn
        for root in self._roots.values():
            turns[root] = len(self._order)
        return turns

    # --- steps ---------------------------------------------------------------------------------------------------

    def step(self, inputs: dict[str, StreamInput], give: Give | None = None) -> StepResult:
        """Takes a step. `give` gets the lines as they come; without it they are in the result."""
        result = StepResult()
        accepted: dict[str, tuple[int, int]] = {}
        for name, given in inputs.items():
            accepted[name] = self._intakes[name].take_in(given)
        result.late = late_rows(self._intakes)
        for query in self.task.queries:
            shares = [accepted.get(s, (0, 0)) for s in self._timed[query.name]]
            result.counts[query.name] = {"in": sum(a for a, _ in shares), "late": sum(b for _, b in shares)}
        outputs: dict[str, list[pa.Table]] = {}
        give = give or (lambda name, table: outputs.setdefault(name, []).append(table))
        for jump in (given.jump for given in inputs.values() if given.jump is not None):
            for name, writer in self._writers.items():
                if isinstance(writer, SentRows):
                    give(name, writer.jump(jump))
        target = min(intake.progress for intake in self._intakes.values())
        for stop, ending in self._stops(target):
            if stop == END_OF_TIME:
                self._run_out(give)
            elif stop > self._now:
                self._advance(stop, give)
            for query in ending:
                self._finish(query, self._last(query), give)
        self._count_never_alive(result)
        result.outputs = {name: pa.concat_tables(tables) for name, tables in outputs.items()}
        result.finished = self.finished
        result.next_event_us = self.next_event_us
        return result

    def _count_never_alive(self, result: StepResult) -> None:
        """Adds the tuples that an UNTIL window let go at once to the late ones of the queries that read it."""
        for node, operator in zip(self._nodes, self._operators, strict=True):
            if isinstance(node, Window) and operator.never_alive:
                for query in self.task.queries:
                    if node in query.root.walk():
                        result.counts[query.name]["late"] += operator.never_alive
                operator.never_alive = 0

    @property
    def next_event_us(self) -> int | None:
        """The next time at which something happens even if nothing arrives; None: never."""
        due = self.due
        return None if due == FOREVER else due

    @property
    def due(self) -> int:
        """The next time at which something happens even if nothing arrives."""
        events = [op.wanted if isinstance(op, Intake) else op.next_event for op in self._operators]
        return min([*events, *(writer.next_event for writer in self._writers.values())], default=FOREVER)

    @property
    def finished(self) -> bool:
        """Whether all queries have ended."""
        return all(writer.finished for writer in self._writers.values())

    def _stops(self, target: int) -> list[tuple[int, list[Query]]]:
        """Returns the instants at which time halts on its way to `target`: at the end of each query that ends, at the
        target itself, and so often in between that the arrays of a step fit the processor's caches."""
        ends: dict[int, list[Query]] = {}
        for query in self.task.queries:
            intakes = [self._intakes[s] for s in self._streams[query.name]]
            if self._has_ended(query) or not all(i.ended for i in intakes):
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

    def _has_ended(self, query: Query) -> bool:
        return all(writer.finished for writer in self._results[query.name].values())

    def _last(self, query: Query) -> int | None:
        """Returns the last timestamp of the query's streams, at which the query ends."""
        return max((at for s in self._timed[query.name] if (at := self._intakes[s].last) is not None), default=None)

    def _run_out(self, give: Give) -> None:
        """Advances beyond the end of the streams, from event to event, so that no death is given out before it happens,
        just as if tuples still arrived. After RUN_OUT_STEPS events the rest runs at once; then a line may get its death
        at the very end that would otherwise stay open."""
        for _ in range(RUN_OUT_STEPS):
            due = min((op.next_event for op in self._operators), default=FOREVER)
            if due >= END_OF_TIME:
                break
            self._advance(max(due, self._now) + 1, give, marked=False)
        self._advance(END_OF_TIME, give, marked=False)

    def _runs_out(self, query: Query) -> bool:
        """Whether the query's rows are computed beyond its last timestamp. A node that receives them may go on beyond
        it, so it gets all that is still to happen. That is finite unless something happens periodically."""
        return not any(n.acts_periodically for n in query.root.walk())

    def _advance(self, now: int, give: Give, marked: bool = True) -> None:
        self._run(0, {}, now, lambda messages, until: self._write(messages, until if marked else None, give))
        self._now = now

    def _run(
        self, first: int, messages: dict[int, Message], now: int, write: Callable[[dict[int, Message], int], None]
    ) -> None:
        """Runs the operators from the turn `first` on, in order. If an operator gives its step in stretches of time,
        the operators after it run one step per stretch."""
        for turn in range(first, len(self._order)):
            place = self._order[turn]
            operator = self._operators[place]
            if self.watch is not None:
                self.watch(self._nodes[place], now)
            if isinstance(operator, Intake):
                messages[place] = operator.release(now)
                continue
            inputs = [messages[child] for child in self._children[place]]
            for until, given in operator.pieces(inputs, now):
                sort = self._replicated and not operator.ordered and isinstance(given, Block)
                news = ordered(given) if sort else given
                if until == now:
                    messages[place] = news
                    break
                before, messages = self._cut(messages, turn, until)
                self._run(turn + 1, before | {place: news}, until, write)
        write(messages, now)

    def _cut(
        self, messages: dict[int, Message], turn: int, until: int
    ) -> tuple[dict[int, Message], dict[int, Message]]:
        """Cuts the messages that later turns still read into those before and those from `until`."""
        parts = {place: cut(message, [until]) for place, message in messages.items() if self._last_turn[place] > turn}
        return {place: before for place, (before, _) in parts.items()}, {
            place: after for place, (_, after) in parts.items()
        }

    def _write(self, messages: dict[int, Message], now: int | None, give: Give) -> None:
        for query in self.task.queries:
            for name, writer in self._results[query.name].items():
                table = None if writer.finished else writer.step(messages[self._roots[query.name]], now)
                if table is not None:
                    give(name, table)

    def _finish(self, query: Query, last: int | None, give: Give) -> None:
        for name, writer in self._results[query.name].items():
            rest = writer.finish(self._known_ends(query), last)
            if rest is not None:
                give(name, rest)

    def _known_ends(self, query: Query) -> Fills:
        """Returns settled deaths that lie ahead, for the rows of a query that ends. (The direct method wrote them with
        the rows.)"""
        if not self._signed or query.root.is_stream:
            return Fills.none()
        return self._known_ends_of(query.root)

    def _known_ends_of(self, node: PlanNode) -> Fills:
        operator = self._operators[self._place[node]]
        assert isinstance(operator, Operator)
        return operator.known_ends(
            [self._known_ends_of(child) for child in node.children] if operator.hands_on_ends else []
        )

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def operators(self) -> tuple[Any, ...]:
        """The operators in the order of the nodes, for measurements."""
        return tuple(self._operators)

    @property
    def tuples_held(self) -> int:
        held: int = sum(op.held for op in self._operators)
        return held + sum(writer.held for writer in self._writers.values())

    @property
    def waiting(self) -> int:
        """Number of tuples that were taken in and that time has not reached yet."""
        return sum(intake.held for intake in self._intakes.values())

    def memory(self, ledger: Ledger | None = None) -> list[Holding]:
        """Reports what each operator holds."""
        ledger = ledger or Ledger()
        lines = [lines_holding(name, writer, ledger) for name, writer in self._writers.items() if writer.held]
        return lines + holdings(self._nodes, self._operators, self._serves, ledger)

    @cached_property
    def _serves(self) -> list[tuple[str, ...]]:
        return served_by(self._nodes, self.task.queries)

    def snapshot(self) -> bytes:
        return encode(self.state())

    def restore(self, data: bytes) -> None:
        self.load(decode(data))

    def state(self) -> State:
        operators = zip(self._nodes, self._operators, strict=True)
        return {
            "now": self._now,
            "operators": {self._names[node]: operator.state() for node, operator in operators},
            "lines": {name: writer.state() for name, writer in self._writers.items()},
        }

    @cached_property
    def _names(self) -> dict[PlanNode, str]:
        """The names of the operators in a snapshot: digests of their sub-plans."""
        return digests_of(self._began_with)

    def load(self, tree: State) -> None:
        """Takes over the state of the operators that the task has. Older versions saved it in the nodes' order."""
        self._now, saved = tree["now"], tree["operators"]
        if isinstance(saved, list):
            saved = {self._names[node]: one for node, one in zip(self._began_with, saved, strict=True)}
        for node, operator in zip(self._nodes, self._operators, strict=True):
            operator.load(saved[self._names[node]])
        for name, writer in self._writers.items():
            writer.load(tree["lines"][name])


def _order(nodes: list[PlanNode]) -> list[int]:
    """Returns the order in which operators run: children first, and operators that must run directly after their child
    right behind it."""
    after: dict[PlanNode, list[int]] = {}
    for place, node in enumerate(nodes):
        if node.children and spec_of(node).runs_after_child:
            after.setdefault(node.children[0], []).append(place)
    moved = {place for places in after.values() for place in places}
    own = [[place, *after.get(node, [])] for place, node in enumerate(nodes) if place not in moved]
    return [place for places in own for place in places]
