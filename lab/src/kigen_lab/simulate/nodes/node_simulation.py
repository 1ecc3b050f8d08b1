"""Runs nodes in virtual time: each node is one processor whose policy chooses the next tuples; links carry the results.

The policies are those of `kigen.schedule`. `edf` and `fifo` are `taat` with that rule: one tuple per decision, so a
more urgent tuple overtakes between tuples, never within one. A tuple passes all operators of its task. What an operator
makes for other tasks leaves when that operator is done. With `fixed_us`, a decision is a micro-batch: it costs that
much more, and its results come at its end. Invariant: all events of an instant are seen before any node decides at that
instant. Cost: O(log events) per tuple and operator.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kigen.schedule import Completion, Policy, PolicySettings, ScheduledTask, make_policy
from kigen_lab.simulate.nodes.model import NodeTask, Parcel, Release, System, Wire
from kigen_lab.simulate.nodes.outcome import Delivery, Instance, NodesOutcome, Segment

RULES = ("edf", "fifo")
MakePolicy = Callable[[Sequence[ScheduledTask]], Policy]
Cost = Callable[[str, str, float], float]  # (node, operator, nominal us) -> us
_FREE = Wire()


def by_rule(rule: str) -> MakePolicy:
    """Returns a maker of policies for EDF or FIFO over (tuple, task)."""
    if rule not in RULES:
        raise ValueError(f"no rule '{rule}' for nodes: write one of {', '.join(RULES)}")
    return lambda tasks: make_policy("taat", tasks, PolicySettings(rule=rule, may_drop=False, learning=False))


@dataclass
class _Work:
    """A parcel in a task's queue."""

    parcel: Parcel
    created_us: float
    done: int = 0
    made: list[int] = field(default_factory=list)  # number of tuples that each step made


@dataclass
class _Node:
    """State of a node."""

    name: str
    policy: Policy
    queues: list[deque[_Work]]
    busy: bool = False


class _Run:
    """State of one run."""

    def __init__(self, system: System, make: MakePolicy, cost: Cost | None, fixed_us: float, record: bool) -> None:
        self._system, self._cost, self._fixed_us, self._record = system, cost, fixed_us, record
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._now = 0.0
        self._by_node = {name: [task for task in system.tasks if task.node == name] for name in system.speeds}
        self._nodes = {
            name: _Node(name, make(_scheduled(tasks)), [deque() for _ in tasks])
            for name, tasks in self._by_node.items()
        }
        self._readers: dict[tuple[str, str], list[int]] = defaultdict(list)
        for name, tasks in self._by_node.items():
            for index, task in enumerate(tasks):
                for stream in task.inputs:
                    self._readers[stream, name].append(index)
        self._hops: dict[tuple[str, str], list[str]] = defaultdict(list)
        for stream, hops in system.routes.items():
            for origin, target in hops:
                self._hops[stream, origin].append(target)
        self._sinks = defaultdict(list)
        for sink in system.sinks:
            self._sinks[sink.stream, sink.node].append(sink)
        self._wire_free: dict[tuple[str, str], float] = defaultdict(lambda: -math.inf)
        self._awaited: dict[tuple[str, int, int], dict[str, Parcel]] = defaultdict(dict)
        self._carry: dict[str, float] = defaultdict(
            lambda: 0.5
        )  # per operator, so that counts are rounded and not cut off
        self._deliveries: list[Delivery] = []
        self._instances: list[Instance] = []
        self._segments: list[Segment] = []

    def go(self, releases: Iterable[Release]) -> NodesOutcome:
        for release in releases:
            self._at(
                release.at_us,
                partial(self._arrive, release.stream, release.node, release.parcel, release.parcel.born_us),
            )
        while self._events:
            self._now = self._events[0][0]
            while self._events and self._events[0][0] <= self._now:
                heapq.heappop(self._events)[2]()
            for node in self._nodes.values():
                if not node.busy:
                    self._decide(node)
        return NodesOutcome(tuple(self._deliveries), tuple(self._instances), tuple(self._segments))

    def _at(self, time_us: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time_us, self._sequence, action))

    def _arrive(self, stream: str, node: str, parcel: Parcel, created_us: float) -> None:
        """Passes a parcel that is on the node to its sinks, next hops and readers."""
        for sink in self._sinks[stream, node]:
            if parcel.count:
                latency_us = self._now - parcel.born_us
                self._deliveries.append(
                    Delivery(sink.output, parcel.label, parcel.count, latency_us, sink.deadline_us, self._now)
                )
        for target in self._hops[stream, node]:
            wire = self._system.wires.get((node, target), _FREE)
            sent_us = max(self._now, self._wire_free[node, target]) + wire.sending_us(
                parcel.count * self._system.tuple_bytes.get(stream, 0.0)
            )
            self._wire_free[node, target] = sent_us
            there_us = sent_us + wire.delay_us
            self._at(there_us, partial(self._arrive, stream, target, parcel, there_us))
        for index in self._readers[stream, node]:
            self._offer(node, index, stream, parcel, created_us)

    def _offer(self, name: str, index: int, stream: str, parcel: Parcel, created_us: float) -> None:
        """Puts a parcel into the task's queue as soon as all its inputs have arrived."""
        task = self._by_node[name][index]
        if task.waits and len(task.inputs) > 1:
            met = self._awaited[name, index, parcel.job]
            met[stream] = parcel
            if len(met) < len(task.inputs):
                return
            del self._awaited[name, index, parcel.job]
            oldest = min(met.values(), key=lambda p: p.born_us)
            parcel = Parcel(oldest.label, max(p.count for p in met.values()), oldest.born_us, parcel.job)
        if not parcel.count:  # nothing to do, but a task that waits for this job must know
            for step in task.steps:
                self._hand_on(name, step.outs, parcel)
            return
        if task.release_us is not None:  # tuples that arrive early may run early, but are not more urgent
            created_us = max(created_us, parcel.born_us + task.release_us)
        node = self._nodes[name]
        node.queues[index].append(_Work(parcel, created_us, 0, [0] * len(task.steps)))
        node.policy.arrived(index, parcel.count, created_us)

    def _hand_on(self, node: str, streams: Sequence[str], parcel: Parcel) -> None:
        for stream in streams:
            self._arrive(stream, node, parcel, self._now)

    def _decide(self, node: _Node) -> None:
        decision = node.policy.next(self._now)
        if decision.drop:
            raise ValueError(
                f"the policy of node {node.name} drops tuples: nodes are simulated with soft deadlines, write "
                "may_drop=False"
            )
        if decision.idle:
            return
        node.busy = True
        end_us = self._now + self._fixed_us
        leaving: list[tuple[float, tuple[str, ...], Parcel]] = []
        ended: list[Instance] = []
        for index, count in decision.admit:
            for _ in range(count):
                end_us = self._run_one(node, index, end_us, leaving, ended)
        for left_us, streams, parcel in leaving:
            self._at(end_us if self._fixed_us else left_us, partial(self._hand_on, node.name, streams, parcel))
        if self._fixed_us:
            ended = [replace(instance, end_us=end_us) for instance in ended]
        late = sum(instance.missed for instance in ended)
        self._instances += ended
        self._at(end_us, partial(self._done, node, Completion(end_us, end_us - self._now, decision.admit, late)))

    @staticmethod
    def _done(node: _Node, completion: Completion) -> None:
        node.busy = False
        node.policy.completed(completion)

    def _run_one(
        self,
        node: _Node,
        index: int,
        now_us: float,
        leaving: list[tuple[float, tuple[str, ...], Parcel]],
        ended: list[Instance],
    ) -> float:
        """Passes the next tuple of the task's oldest parcel through the task's operators. Returns when it is done."""
        task, work = self._by_node[node.name][index], node.queues[index][0]
        work.done += 1
        last, copies, parcel = work.done == work.parcel.count, 1, work.parcel
        for position, step in enumerate(task.steps):
            for _ in range(copies):
                began_us = now_us
                nominal_us = step.cost_us / self._system.speeds[node.name]
                now_us += self._cost(node.name, step.operator, nominal_us) if self._cost else nominal_us
                if self._record:
                    self._segments.append(Segment(node.name, task.name, step.operator, parcel.label, began_us, now_us))
            copies = self._passed(step.operator, step.selectivity, copies)
            work.made[position] += copies
            if last:
                leaving.append(
                    (now_us, step.outs, Parcel(parcel.label, work.made[position], parcel.born_us, parcel.job))
                )
        if last:
            node.queues[index].popleft()
            relative_us = math.inf if task.deadline_us is None else task.deadline_us
            ended.append(Instance(task.name, parcel.label, work.created_us, work.created_us + relative_us, now_us))
        return now_us

    def _passed(self, operator: str, selectivity: float, copies: int) -> int:
        """Returns how many of the tuples pass.

        Fractions are carried over, so a selectivity of 0.5 passes the first, third, fifth ...
        """
        if selectivity == 1.0:
            return copies
        self._carry[operator] += copies * selectivity
        passed = math.floor(self._carry[operator] + 1e-9)
        self._carry[operator] -= passed
        return passed


def _scheduled(tasks: Sequence[NodeTask]) -> list[ScheduledTask]:
    return [
        ScheduledTask(task.name, task.deadline_us, False, sum(step.cost_us for step in task.steps)) for task in tasks
    ]


def simulate_nodes(
    system: System,
    releases: Iterable[Release],
    rule: str | MakePolicy = "edf",
    *,
    cost: Cost | None = None,
    fixed_us: float = 0.0,
    record: bool = False,
) -> NodesOutcome:
    """Runs until nothing is left to do.

    `rule` is `edf`, `fifo`, or a function that makes a node's policy. `cost` gives the true cost of a tuple. `record`
    keeps what ran when.
    """
    return _Run(system, by_rule(rule) if isinstance(rule, str) else rule, cost, fixed_us, record).go(releases)
