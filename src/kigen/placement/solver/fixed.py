"""Fixed-split model, for many operators: sub-deadlines are fixed beforehand, traffic is minimised, and there is no
big-M.

z(n, o): operator o runs on n. x(n, s): stream s is brought to n, at least z(n, reader) - z(n, producer). With sources,
sinks and pinned operators as anchors this is the multiway-cut relaxation, whose bound is close. On a full mesh streams
go directly; otherwise each link has its own x, which must be fed (a cycle of links could still feed itself: the bound
is then lower, never wrong). Demand rows are added where a solution violates them (`cut`), for all nodes at once.
Invariant: every row holds for every placement that passes `NodeDemand.fits`, so the bound is a bound. Cost: nodes times
(operators + readers) rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kigen.placement.network import Network
from kigen.placement.problem import Problem
from kigen.placement.solver.demand import broken_span
from kigen.placement.solver.mip import Floats, Mip, MipSolution
from kigen.placement.solver.node_demand import NodeDemand

_WHOLE = 1e-6


@dataclass
class FixedModel:
    """The model. `pinned`: operators that stay where they are; the model decides about the others."""

    problem: Problem
    network: Network
    demand: NodeDemand
    floor: Mapping[str, float]  # least slack of each node
    pinned: Mapping[str, str] = field(default_factory=dict)
    mip: Mip = field(default_factory=Mip)

    def __post_init__(self) -> None:
        p = self.problem
        self.constant = 0.0
        self.place = {o: (self.pinned[o],) if o in self.pinned else p.allowed[o] for o in p.operator}
        self.free = [o for o in p.operator if len(self.place[o]) > 1]
        self.z = {(n, o): self.mip.binary() for o in self.free for n in self.place[o]}
        for o in self.free:
            self.mip.row({self.z[n, o]: 1.0 for n in self.place[o]}, 1.0, 1.0)
        self.x: dict[tuple[str, str, str], int] = {}  # (from, to, stream); from is "" on a mesh
        self._into: dict[str, list[str]] = {n: [] for n in p.node}
        for a, b in p.link:
            self._into[b].append(a)
        for s in p.stream:
            self._carry(s)
        self._rates()

    def _share(self, node: str, op: str) -> tuple[int | None, float]:
        """Returns z(node, op) as a column, or as its constant value."""
        if (node, op) in self.z:
            return self.z[node, op], 0.0
        return None, float(self.place[op] == (node,))

    def _made(self, node: str, stream: str) -> tuple[int | None, float]:
        """Returns whether the stream is made on the node, as a column or a constant."""
        maker = self.problem.producer.get(stream)
        return (None, float(node in self.problem.stream[stream].born)) if maker is None else self._share(node, maker)

    def _carry(self, stream: str) -> None:
        """Adds the rows that bring a stream to its readers."""
        p = self.problem
        readers = [("", o.sink) for o in p.outputs if o.stream == stream]
        readers += [(o, n) for o in p.consumers[stream] for n in self.place[o]]
        settled = all(reader == "" or len(self.place[reader]) == 1 for reader, _ in readers)
        maker = p.producer.get(stream)
        made = p.stream[stream].born if maker is None else self.place[maker]
        if settled and self.network.is_mesh and (maker is None or len(made) == 1):
            self.constant += p.traffic[stream] * len({n for _, n in readers} - set(made))
            return
        for reader, node in dict.fromkeys(readers):
            terms = dict.fromkeys(self._brought(node, stream), 1.0)
            wanted, need = (None, 1.0) if reader == "" else self._share(node, reader)
            here, have = self._made(node, stream)
            if wanted is not None:
                terms[wanted] = terms.get(wanted, 0.0) - 1.0
            if here is not None:
                terms[here] = terms.get(here, 0.0) + 1.0
            if need - have > -1.0 + _WHOLE and not (need - have <= 0 and wanted is None):
                self.mip.row(terms, lower=need - have)
        if not self.network.is_mesh:
            self._relays(stream)

    def _brought(self, node: str, stream: str) -> list[int]:
        """Returns the columns that bring a stream to a node."""
        tails = [""] if self.network.is_mesh else self._into[node]
        found = []
        for tail in tails:
            if (tail, node, stream) not in self.x:
                whole = not self.network.is_mesh
                self.x[tail, node, stream] = self.mip.column(0, 1, self.problem.traffic[stream], whole)
            found.append(self.x[tail, node, stream])
        return found

    def _relays(self, stream: str) -> None:
        """Adds rows so that a link carries only what is made at its beginning or brought there."""
        for n in self.problem.node:
            self._brought(n, stream)
        for a, b in self.problem.link:
            terms = {self.x[a, b, stream]: 1.0} | {self.x[c, a, stream]: -1.0 for c in self._into[a] if c != b}
            made, have = self._made(a, stream)
            if made is not None:
                terms[made] = -1.0
            self.mip.row(terms, upper=have)

    def _rates(self) -> None:
        """Adds the long-run limits of CPU and bandwidth."""
        p = self.problem
        rates = {o: p.work_us[o] / t for o in p.operator if (t := p.period_us[p.operator[o].output]) is not None}
        self._capacity(rates, 1.0)
        for (tail, node, stream), column in list(self.x.items()):
            width = p.link[tail, node].bytes_per_s if tail else None
            if width is not None and p.period_us[stream] is not None and p.traffic[stream] > width:
                self.mip.row({column: 1.0}, upper=0.0)
        if not self.network.is_mesh:
            for (a, b), link in p.link.items():
                load = {
                    c: p.traffic[s]
                    for s in p.stream
                    if p.period_us[s] is not None and (c := self.x.get((a, b, s))) is not None
                }
                if link.bytes_per_s is not None and load:
                    self.mip.row(load, upper=link.bytes_per_s)

    def _capacity(self, work: Mapping[str, float], span: float) -> None:
        """Adds rows so that no node holds more of `work` than fits into `span`."""
        for n, node in self.problem.node.items():
            room = (1 - self.floor[n]) * node.speed * span
            terms: dict[int, float] = {}
            for o, amount in work.items():
                column, there = self._share(n, o)
                if column is not None:
                    terms[column] = amount
                room -= there * amount
            if room < -1e-6 * span:  # the pinned operators alone exceed it: nothing is feasible
                self.mip.row(terms, upper=room)
            elif sum(terms.values()) > room:
                self.mip.row(terms, upper=max(0.0, room))

    def cut(self, operators: Iterable[str], node: str) -> bool:
        """Adds rows for all nodes if `operators` do not fit on the node. Returns whether it added any."""
        here, speed = set(operators), self.problem.node[node].speed
        if self.demand.fits(here, speed, self.floor[node]):
            return False
        span = broken_span(self.demand.curves(here), speed, 1 - self.floor[node])
        if span is None or np.isinf(span):
            return False  # the rows of `_rates` already exclude it
        work: dict[str, float] = {}
        for windows in self._windows(span).values():
            work |= _worst(windows, here)
        self._capacity(work, span)
        return True

    def _windows(self, span: float) -> dict[str, list[dict[str, float]]]:
        """Returns timeline -> operator -> work, for each window of that length with any work."""
        found = {}
        for line, ops in self.demand.members.items():
            begins = sorted({self.demand.lines.start[o] for o in ops})
            windows = [{o: work for o in ops if (work := self.demand.within(o, a, span)) > 0} for a in begins]
            if kept := [w for w in windows if w]:
                found[line] = kept
        return found

    def start(self, nodes: Mapping[str, str]) -> Floats:
        """Returns a placement as values of the columns (for a mesh; otherwise the solver chooses the links)."""
        values = np.zeros(len(self.mip.cost))
        for (n, o), column in self.z.items():
            values[column] = float(nodes[o] == n)
        for (tail, n, s), column in self.x.items():
            maker = self.problem.producer.get(s)
            made = n in self.problem.stream[s].born if maker is None else nodes[maker] == n
            wanted = any(nodes[o] == n for o in self.problem.consumers[s]) or any(
                o.stream == s and o.sink == n for o in self.problem.outputs
            )
            values[column] = float(tail == "" and wanted and not made)
        return values

    def nodes(self, values: Floats) -> dict[str, str]:
        """Returns operator -> node."""
        chosen = {o: places[0] for o, places in self.place.items() if len(places) == 1}
        best: dict[str, float] = {}
        for (n, o), column in self.z.items():
            if values[column] > best.get(o, -1.0):
                best[o], chosen[o] = values[column], n
        return chosen

    def solve(
        self, time_limit_s: float, start: Mapping[str, str] | None = None, gap: float = 0.0, relaxed: bool = False
    ) -> MipSolution:
        """Solves the model. The objective and the bound include the constant traffic."""
        given = None if start is None else self.start(start)
        found = self.mip.solve(time_limit_s, given, gap, relaxed)
        return MipSolution(
            found.status, found.values, found.objective + self.constant, found.bound + self.constant, found.seconds
        )


def _worst(windows: list[dict[str, float]], here: set[str]) -> dict[str, float]:
    """Returns the window with the most work of the given operators; among equals, with the most work in all."""
    return max(windows, key=lambda w: (sum(w.get(o, 0.0) for o in here), sum(w.values())))
