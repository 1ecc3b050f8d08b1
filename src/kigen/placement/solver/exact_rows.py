"""Constraints of the paper's model, with its slips corrected: placement, relays and sub-deadlines are decided together.

Formula numbers are the paper's. Formula (6) is read as in docs/decisions/007: the work on a node that is due by the end
of the local path to an operator must fit into that path's sub-deadlines. Link delays count against the deadline in (5).
Slacks are normalised by the operator's even split d'. Cost: pairs of operators that may meet on a node, times nodes,
with big-M rows: for tens of operators, not hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kigen.placement.problem import Problem
from kigen.placement.solver.mip import Mip
from kigen.placement.solver.split import by_work, least

_TIE = 1e-5  # share of a deadline: paths that end closer together than this are due together
_KEEP = 1e-6  # a goal that was reached may be given up by this much for the next


@dataclass
class ExactRows:
    """Columns and rows of the model.

    `stretch`: deadlines may be exceeded, and the first goal is to exceed them as little as possible. This shows which
    deadline cannot hold.
    """

    problem: Problem
    stretch: bool = False
    mip: Mip = field(default_factory=Mip)

    def __post_init__(self) -> None:
        p, m = self.problem, self.mip
        self.even = by_work(p)
        self.even_least = least(self.even)
        more = 20.0 if self.stretch else 1.0
        self.far = more * max(o.deadline_us for o in p.outputs)
        # Big M of an operator's rows: no path through it is longer than its tightest deadline.
        self.cap = {o: more * min(out.deadline_us for out in p.outputs if o in p.needed[out.name]) for o in p.operator}
        self.z = {(n, o): m.binary() for o in p.operator for n in p.allowed[o]}
        self.x = {(l, s): m.binary() for s in p.stream for l in p.link}
        self.y = {(n, s): m.column(0, 1) for s in p.stream for n in p.node}
        self.level = {(n, s): m.column(0, len(p.nodes)) for s in p.stream for n in p.node}
        self.d = {key: m.column(0, self.far) for key in self.even}
        self.d_least = {o: m.column(0, self.far) for o in p.operator}
        self.over = {o.name: m.column(0, self.far if self.stretch else 0.0) for o in p.outputs}
        self.slack = {o: m.column(0, self.far) for o in p.operator}
        self.least_slack = m.column(0, self.far)
        self.spread = self._laxity()
        self._availability()
        self._paths()
        self._demand()

    def _laxity(self) -> dict[int, float]:
        """Adds (3) and (4) with h+ minus h-, and the minimum over outputs for operators that several outputs need."""
        p, m, terms = self.problem, self.mip, dict[int, float]()
        for (output, o), even in self.even.items():
            work = max(p.work_us[o], 1e-9)
            above, below = m.column(), m.column()
            m.row({self.d[output, o]: 1 / work, above: 1.0, below: -1.0}, even / work, even / work)
            terms |= {above: 1.0, below: 1.0}
            m.row({self.d_least[o]: 1.0, self.d[output, o]: -1.0}, upper=0.0)
        return terms

    def _availability(self) -> None:
        """Adds (7)-(11): each operator placed once, each output at its sink, no more bytes on a link than it can
        carry.
        """
        p, m = self.problem, self.mip
        for o in p.operator:
            m.row({self.z[n, o]: 1.0 for n in p.allowed[o]}, 1.0, 1.0)
        into = {n: [l for l in p.link if l[1] == n] for n in p.node}
        for s, stream in p.stream.items():
            maker = p.producer.get(s)
            for n in p.node:
                terms = {self.y[n, s]: 1.0} | {self.x[l, s]: -1.0 for l in into[n]}
                if maker is not None and (n, maker) in self.z:
                    terms[self.z[n, maker]] = -1.0
                m.row(terms, upper=float(n in stream.born))
                for o in p.consumers[s]:
                    if (n, o) in self.z:
                        m.row({self.z[n, o]: 1.0, self.y[n, s]: -1.0}, upper=0.0)
            for a, b in p.link:
                m.row({self.x[(a, b), s]: 1.0, self.y[a, s]: -1.0}, upper=0.0)
                far = float(len(p.nodes))
                m.row({self.level[b, s]: 1.0, self.level[a, s]: -1.0, self.x[(a, b), s]: -far}, lower=1.0 - far)
        for output in p.outputs:
            m.row({self.y[output.sink, output.stream]: 1.0}, lower=1.0)
        for (a, b), link in p.link.items():
            if link.bytes_per_s is not None:
                load = {self.x[(a, b), s]: p.traffic[s] for s in p.stream if p.period_us[s] is not None}
                if load:
                    m.row(load, upper=link.bytes_per_s)
        for n, node in p.node.items():
            rates = {
                o: p.work_us[o] / period
                for o in p.operator
                if (period := p.period_us[p.operator[o].output]) is not None
            }
            load = {self.z[n, o]: rate for o, rate in rates.items() if (n, o) in self.z}
            if load:
                m.row(load, upper=node.speed)

    def _paths(self) -> None:
        """Adds (5): sub-deadlines and link delays along every path sum to the deadline at most."""
        p, m = self.problem, self.mip
        slow = any(link.time_us(size) > 0 for link in p.links for size in p.size_bytes.values())
        way = self._way() if slow else {}
        for output in p.outputs:
            end = {o: m.column(0, self.far) for o in p.needed[output.name]}
            for o in p.needed[output.name]:
                for s in p.operator[o].inputs:
                    terms = {end[o]: 1.0, self.d[output.name, o]: -1.0}
                    if s in p.producer:
                        terms[end[p.producer[s]]] = -1.0
                    if (s, o) in way:
                        terms[way[s, o]] = -1.0
                    m.row(terms, lower=0.0)
            terms = {self.over[output.name]: -1.0}
            if output.stream in p.producer:
                terms[end[p.producer[output.stream]]] = 1.0
            if (output.stream, "sink " + output.name) in way:
                terms[way[output.stream, "sink " + output.name]] = 1.0
            m.row(terms, upper=output.deadline_us)

    def _way(self) -> dict[tuple[str, str], int]:
        """Returns (stream, reader) -> its time on links, for the chosen nodes and links."""
        p, m, way = self.problem, self.mip, dict[tuple[str, str], int]()
        for s, size in p.size_bytes.items():
            far = sum(sorted((link.time_us(size) for link in p.links), reverse=True)[: len(p.nodes) - 1])
            at = {n: m.column(0, far) for n in p.node}
            for (a, b), link in p.link.items():
                m.row({at[b]: 1.0, at[a]: -1.0, self.x[(a, b), s]: -(far + link.time_us(size))}, lower=-far)
            for o in p.consumers[s]:
                way[s, o] = m.column(0, far)
                for n in p.allowed[o]:
                    m.row({way[s, o]: 1.0, at[n]: -1.0, self.z[n, o]: -far}, lower=-far)
            for output in p.outputs:
                if output.stream == s:
                    way[s, "sink " + output.name] = at[output.sink]
        return way

    def _demand(self) -> None:
        """Adds (6) over the local path, ordered by it.

        A pair of operators that may share a node has a binary: is the first one due by then?
        """
        p, m = self.problem, self.mip
        path = {o: m.column(0, self.cap[o]) for o in p.operator}
        for o, op in p.operator.items():
            for s in op.inputs:
                maker = p.producer.get(s)
                if maker is None or not set(p.allowed[maker]) & set(p.allowed[o]):
                    m.row({path[o]: 1.0, self.d_least[o]: -1.0}, upper=0.0)
                    continue
                far = self.cap[maker]
                before = m.column(0, far)  # path of the producer, if it is on the same node
                m.row({path[o]: 1.0, self.d_least[o]: -1.0, before: -1.0}, upper=0.0)
                m.row({before: 1.0, path[maker]: -1.0}, upper=0.0)
                for n in p.allowed[o]:
                    terms = {before: 1.0, self.z[n, o]: far}
                    if (n, maker) in self.z:
                        terms[self.z[n, maker]] = -far
                    m.row(terms, upper=far)
        counted = self._pairs(path)
        for o in p.operator:
            for n in p.allowed[o]:
                speed = p.node[n].speed
                terms = {column: p.work_us[first] / speed for first, column in counted[o].items()}
                far = sum(terms.values()) + self.cap[o] * 2
                terms |= {path[o]: -1.0, self.slack[o]: self.even_least[o], self.z[n, o]: far}
                m.row(terms, upper=far - p.work_us[o] / speed)
            m.row({self.least_slack: 1.0, self.slack[o]: -1.0}, upper=0.0)
            m.row({self.slack[o]: self.even_least[o], path[o]: -1.0}, upper=0.0)

    def _pairs(self, path: dict[str, int]) -> dict[str, dict[str, int]]:
        """Returns `counted[o]`: the operators whose work is due by the end of o's path, if they are on its node.

        Equal ends are ordered by number (`_TIE`). If each pair could choose freely, in a cycle of equals each one would
        count only half of the others.
        """
        p, m = self.problem, self.mip
        counted: dict[str, dict[str, int]] = {o: {} for o in p.operator}
        names = list(p.order)
        for i, first in enumerate(names):
            for j, second in enumerate(names[i + 1 :], i + 1):
                shared = set(p.allowed[first]) & set(p.allowed[second])
                if not shared:
                    continue
                pairs: list[tuple[str, str, float, tuple[int, float] | None]]
                if self._always_before(first, second):
                    pairs = [(first, second, 1.0, None)]
                else:
                    # 1: `first` is due no later than `second`
                    earlier = m.column(float(self._twins(first, second)), 1, whole=True)
                    tie = (j - i) * _TIE * min(self.cap[first], self.cap[second])
                    m.row(
                        {path[second]: 1.0, path[first]: -1.0, earlier: -self.cap[first]}, lower=-self.cap[first] - tie
                    )
                    m.row({path[first]: 1.0, path[second]: -1.0, earlier: self.cap[second] + tie}, lower=tie)
                    pairs = [(first, second, 0.0, (earlier, 1.0)), (second, first, 1.0, (earlier, -1.0))]
                for a, b, base, switch in pairs:
                    here = m.column(0, 1)
                    for n in shared:
                        terms = {here: 1.0, self.z[n, a]: -1.0, self.z[n, b]: -1.0}
                        if switch is not None:
                            terms[switch[0]] = -switch[1]
                        m.row(terms, lower=base - 2.0)
                    counted[b][a] = here
        return counted

    def _twins(self, first: str, second: str) -> bool:
        """Returns whether two operators could be exchanged, so that one order of them is enough."""
        p = self.problem
        a, b = p.operator[first], p.operator[second]
        same = set(a.inputs) == set(b.inputs) and p.work_us[first] == p.work_us[second] and set(a.nodes) == set(b.nodes)
        same &= p.traffic[a.output] == p.traffic[b.output] and p.consumers[a.output] == p.consumers[b.output]
        return same and self._wanted(a.output) == self._wanted(b.output)

    def _wanted(self, stream: str) -> list[tuple[str, float]]:
        return sorted((o.sink, o.deadline_us) for o in self.problem.outputs if o.stream == stream)

    def _always_before(self, first: str, second: str) -> bool:
        """Returns whether the order is known: both are on one chain of operators pinned to one node."""
        p, at = self.problem, second
        while at != first:
            before = p.before[at]
            if (
                len(before) != 1
                or len(p.allowed[at]) != 1
                or p.allowed[before[0]] != p.allowed[at]
                or len(p.operator[at].inputs) != 1
            ):
                return False
            at = before[0]
        return True
