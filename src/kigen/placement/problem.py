"""The placement problem, independent of CQL: nodes, links, streams, operators, and outputs with deadlines.

Times are microseconds. An *activation* is what arrives at once: `tuples` of a source stream, every `period_us` (None:
once only, as in the paper's worked example). It determines the work of every operator per activation.

Invariant: a constructed `Problem` is sound (names exist, no cycles, every stream has one producer or birthplace). All
derived figures are computed once. Cost: linear in operators and their inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

from kigen.placement.problem_checks import check_problem, require


@dataclass(frozen=True)
class ProblemNode:
    """A node that can run operators."""

    name: str
    speed: float = 1.0  # an operator of cost c takes c / speed on this node


@dataclass(frozen=True)
class ProblemLink:
    """One direction of a link. `bytes_per_s` None: unlimited bandwidth."""

    source: str
    target: str
    delay_us: float = 0.0
    bytes_per_s: float | None = None

    def time_us(self, size_bytes: float) -> float:
        """Returns the time of a message of that size on an idle link."""
        return self.delay_us + (0.0 if self.bytes_per_s is None else 1e6 * size_bytes / self.bytes_per_s)


@dataclass(frozen=True)
class ProblemStream:
    """A stream.

    `born`: the nodes whose sources produce it. It is empty for the output of an operator, whose `tuples` and
    `period_us` follow from the operator's inputs.
    """

    name: str
    born: tuple[str, ...] = ()
    tuples: float = 0.0
    period_us: float | None = None
    bytes_per_tuple: float = 100.0


@dataclass(frozen=True)
class ProblemOperator:
    """An operator.

    `nodes`: where it may run; empty: anywhere. `waits`: one run takes a tuple from each input (the paper's operators
    with several inputs); otherwise each tuple of each input is one run. `selectivity`: tuples out per run.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    cost_us: float = 1.0
    selectivity: float = 1.0
    nodes: tuple[str, ...] = ()
    waits: bool = False


@dataclass(frozen=True)
class ProblemOutput:
    """`stream` is wanted at node `sink` within `deadline_us` of the birth of the tuples it comes from."""

    name: str
    stream: str
    sink: str
    deadline_us: float


@dataclass(frozen=True)
class Problem:
    """A complete placement problem."""

    nodes: tuple[ProblemNode, ...]
    links: tuple[ProblemLink, ...]
    streams: tuple[ProblemStream, ...]
    operators: tuple[ProblemOperator, ...]
    outputs: tuple[ProblemOutput, ...]

    def __post_init__(self) -> None:
        check_problem(self)

    @cached_property
    def node(self) -> dict[str, ProblemNode]:
        return {n.name: n for n in self.nodes}

    @cached_property
    def stream(self) -> dict[str, ProblemStream]:
        return {s.name: s for s in self.streams}

    @cached_property
    def operator(self) -> dict[str, ProblemOperator]:
        return {o.name: o for o in self.operators}

    @cached_property
    def output(self) -> dict[str, ProblemOutput]:
        return {o.name: o for o in self.outputs}

    @cached_property
    def link(self) -> dict[tuple[str, str], ProblemLink]:
        return {(l.source, l.target): l for l in self.links}

    @cached_property
    def producer(self) -> dict[str, str]:
        """Operator that produces each stream. Source streams are absent."""
        made: dict[str, str] = {}
        for op in self.operators:
            require(
                op.output not in made,
                f"stream {op.output} is produced by both {made.get(op.output)} and {op.name}: give each its own",
            )
            made[op.output] = op.name
        return made

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Operators that read each stream."""
        found: dict[str, list[str]] = {s.name: [] for s in self.streams}
        for op in self.operators:
            for name in dict.fromkeys(op.inputs):
                found[name].append(op.name)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def before(self) -> dict[str, tuple[str, ...]]:
        """Operators that feed an operator directly."""
        return {
            o.name: tuple(dict.fromkeys(self.producer[s] for s in o.inputs if s in self.producer))
            for o in self.operators
        }

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operators, each after those that feed it."""
        return tuple(TopologicalSorter(self.before).static_order())

    @cached_property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """Pre(s): the operators that an output needs, in order."""
        return {o.name: self._upstream(o.stream) for o in self.outputs}

    def _upstream(self, stream: str) -> tuple[str, ...]:
        seen: set[str] = set()
        waiting = [self.producer[stream]] if stream in self.producer else []
        while waiting:
            op = waiting.pop()
            if op not in seen:
                seen.add(op)
                waiting += self.before[op]
        return tuple(o for o in self.order if o in seen)

    @cached_property
    def allowed(self) -> dict[str, tuple[str, ...]]:
        """Node(o): where an operator may run."""
        everywhere = tuple(n.name for n in self.nodes)
        return {o.name: o.nodes or everywhere for o in self.operators}

    @cached_property
    def tuples(self) -> dict[str, float]:
        """Tuples of each stream per activation."""
        found = {s.name: s.tuples for s in self.streams if s.name not in self.producer}
        for name in self.order:
            op = self.operator[name]
            found[op.output] = op.selectivity * self._runs(op, found)
        return found

    @cached_property
    def runs(self) -> dict[str, float]:
        """Tuples (or sets of tuples, for an operator that waits) that an operator handles per activation."""
        return {o.name: self._runs(o, self.tuples) for o in self.operators}

    @cached_property
    def work_us(self) -> dict[str, float]:
        """c_o: cost of an activation for an operator on a node of speed 1."""
        return {o.name: o.cost_us * self.runs[o.name] for o in self.operators}

    @cached_property
    def period_us(self) -> dict[str, float | None]:
        """Period of each stream.

        Where the periods of inputs differ, it is the shortest, which counts the slower inputs too often but never too
        rarely.
        """
        found = {s.name: s.period_us for s in self.streams if s.name not in self.producer}
        for name in self.order:
            op = self.operator[name]
            found[op.output] = min((p for p in (found[s] for s in op.inputs) if p is not None), default=None)
        return found

    @cached_property
    def size_bytes(self) -> dict[str, float]:
        """Bytes of each stream per activation."""
        return {s.name: self.tuples[s.name] * s.bytes_per_tuple for s in self.streams}

    @cached_property
    def traffic(self) -> dict[str, float]:
        """Cost of a stream on a link: bytes per second, or bytes if there is no period."""
        return {s: size if (p := self.period_us[s]) is None else size * 1e6 / p for s, size in self.size_bytes.items()}

    def _runs(self, op: ProblemOperator, tuples: dict[str, float]) -> float:
        counts = [tuples[s] for s in op.inputs]
        return max(counts) if op.waits else sum(counts)


def both_ways(
    source: str, target: str, delay_us: float = 0.0, bytes_per_s: float | None = None
) -> tuple[ProblemLink, ProblemLink]:
    """Returns the links of both directions."""
    return ProblemLink(source, target, delay_us, bytes_per_s), ProblemLink(target, source, delay_us, bytes_per_s)
