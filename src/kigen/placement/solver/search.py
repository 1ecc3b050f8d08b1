"""Heuristic: places operators one by one where they cost the least traffic, then moves them, alone or with neighbours.

A move must save traffic, and the nodes must still fit. Invariant: a move is made only if the target node passes the
demand test afterwards; a loss only makes a node lighter. Cost: a pass visits the neighbouring nodes of each free
operator, and the demand test runs only for moves that would save traffic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from kigen.placement.network import Network, origins
from kigen.placement.problem import Problem
from kigen.placement.solver.demand import fit
from kigen.placement.solver.node_demand import NodeDemand

_BETTER = 1e-9


class Search:
    """A placement that is being improved."""

    def __init__(self, network: Network, demand: NodeDemand, floor: float, seed: int = 0) -> None:
        self.network, self.problem, self.demand = network, network.problem, demand
        self.floor = dict.fromkeys(self.problem.node, floor)  # least slack of each node
        self.rng = random.Random(seed)
        self.nodes: dict[str, str] = {}
        self.held: dict[str, set[str]] = {n: set() for n in self.problem.node}
        self.sinks: dict[str, tuple[str, ...]] = dict.fromkeys(self.problem.stream, ())
        for output in self.problem.outputs:
            self.sinks[output.stream] += (output.sink,)
        self._after = {o: self.problem.consumers[op.output] for o, op in self.problem.operator.items()}
        self._pull = _pull(self.problem)

    def take(self, nodes: Mapping[str, str]) -> None:
        """Takes over a placement."""
        self.nodes = dict(nodes)
        self.held = {n: set() for n in self.problem.node}
        for o, n in nodes.items():
            self.held[n].add(o)

    def traffic(self) -> float:
        return sum(self._stream_cost(s) for s in self.problem.stream)

    def fits(self) -> bool:
        return not self.overfull()

    def overfull(self) -> list[str]:
        """Returns the nodes that fail the demand test."""
        return [n for n in self.problem.node if not self.node_fits(n, self.held[n])]

    def node_fits(self, node: str, operators: Iterable[str]) -> bool:
        return self.demand.fits(operators, self.problem.node[node].speed, self.floor[node])

    def _stream_cost(self, stream: str) -> float:
        """Returns the traffic of a stream between the operators placed so far."""
        maker = self.problem.producer.get(stream)
        at = self.problem.stream[stream].born if maker is None else (self.nodes[maker],) if maker in self.nodes else ()
        wanted = {self.nodes[o] for o in self.problem.consumers[stream] if o in self.nodes}.union(self.sinks[stream])
        if not at:
            return 0.0
        if self.network.is_mesh:
            return self.problem.traffic[stream] * len(wanted.difference(at))
        try:
            return self.problem.traffic[stream] * len(self.network.tree(at, sorted(wanted)))
        except ValueError:
            return float("inf")

    def _around(self, operators: Iterable[str]) -> set[str]:
        """Returns the streams whose cost changes if these operators move."""
        found: set[str] = set()
        for o in operators:
            found.update(self.problem.operator[o].inputs, (self.problem.operator[o].output,))
        return found

    def _move(self, operators: Iterable[str], node: str) -> dict[str, str]:
        """Moves operators to a node. Returns where they were."""
        before = {o: self.nodes[o] for o in operators}
        for o, old in before.items():
            self.held[old].discard(o)
            self.held[node].add(o)
            self.nodes[o] = node
        return before

    def _undo(self, before: Mapping[str, str]) -> None:
        for o, old in before.items():
            self.held[self.nodes[o]].discard(o)
            self.held[old].add(o)
            self.nodes[o] = old

    def greedy(self) -> None:
        """Places pinned operators first, then each operator near its inputs or sinks, or where there is room."""
        self.nodes, self.held = {}, {n: set() for n in self.problem.node}
        for o, places in self.problem.allowed.items():
            if len(places) == 1:
                self.nodes[o] = places[0]
                self.held[places[0]].add(o)
        for o in self.problem.order:
            if o not in self.nodes:
                node = self._first_fit(o)
                self.nodes[o] = node
                self.held[node].add(o)

    def _first_fit(self, op: str) -> str:
        scored = []
        for node in self.problem.allowed[op]:
            self.nodes[op] = node
            cost = sum(self._stream_cost(s) for s in self._around((op,)))
            far = sum(h for sink in self._pull[op] if (h := self.network.hops(node, sink)) is not None)
            cost += 0.5 * self.problem.traffic[self.problem.operator[op].output] * far / max(1, len(self._pull[op]))
            scored.append((cost, node))
        del self.nodes[op]
        for _, node in sorted(scored):
            if self.node_fits(node, self.held[node] | {op}):
                return node
        return min(
            self.problem.allowed[op],
            key=lambda n: fit(self.demand.curves(self.held[n] | {op}), self.problem.node[n].speed).demand,
        )

    def improve(self, left_s: Callable[[], float]) -> None:
        """Moves operators until no move saves anything or the time is over. Overfull nodes give work away first."""
        self._relieve(left_s)
        moved = True
        while moved and left_s() > 0:
            moved = False
            free = [o for o in self.problem.order if len(self.problem.allowed[o]) > 1]
            self.rng.shuffle(free)
            for o in free:
                if left_s() <= 0:
                    return
                for group in self._groups(o):
                    moved |= self._best_move(group)

    def _groups(self, op: str) -> list[tuple[str, ...]]:
        """Returns the operator alone, with what it feeds, with what feeds it, and with all it is connected to on its
        node.
        """
        found: list[tuple[str, ...]] = [(op,)]
        for reach in (self._after, self.problem.before, None):
            group, waiting = {op}, [op]
            while waiting and len(group) < 12:
                at = waiting.pop()
                near = reach[at] if reach is not None else (*self._after[at], *self.problem.before[at])
                for o in near:
                    if o not in group and self.nodes[o] == self.nodes[op] and len(self.problem.allowed[o]) > 1:
                        group.add(o)
                        waiting.append(o)
            found.append(tuple(sorted(group)))
        return list(dict.fromkeys(found))

    def _best_move(self, group: tuple[str, ...]) -> bool:
        """Moves a group to the node that saves the most traffic. Returns whether it moved."""
        home, streams = self.nodes[group[0]], self._around(group)
        if any(self.nodes[o] != home for o in group):
            return False
        now = sum(self._stream_cost(s) for s in streams)
        options = []
        for node in self._neighbours(group):
            before = self._move(group, node)
            cost = sum(self._stream_cost(s) for s in streams)
            self._undo(before)
            if cost < now - _BETTER * max(1.0, now):
                options.append((cost, node))
        for _, node in sorted(options):
            if self.node_fits(node, self.held[node].union(group)):
                self._move(group, node)
                return True
        return False

    def _neighbours(self, group: tuple[str, ...]) -> list[str]:
        """Returns the allowed nodes that have a stream in common with the group."""
        found: set[str] = set()
        for s in self._around(group):
            found.update(self.sinks[s])
            found.update(self.nodes[o] for o in self.problem.consumers[s])
            found.update(origins(self.problem, self.nodes, s))
        allowed = set.intersection(*(set(self.problem.allowed[o]) for o in group))
        return sorted((found & allowed) - {self.nodes[group[0]]})

    def _relieve(self, left_s: Callable[[], float]) -> None:
        """Moves operators away from overfull nodes, those first that cost the least traffic per work."""
        for node in self.overfull():
            while left_s() > 0 and not self.node_fits(node, self.held[node]):
                options = []
                for o in sorted(self.held[node]):
                    streams = self._around((o,))
                    now = sum(self._stream_cost(s) for s in streams)
                    for target in self.problem.allowed[o]:
                        if target != node:
                            before = self._move((o,), target)
                            cost = sum(self._stream_cost(s) for s in streams)
                            self._undo(before)
                            options.append(((cost - now) / max(self.problem.work_us[o], 1e-9), o, target))
                fitting = (
                    option
                    for option in sorted(options)
                    if self.node_fits(option[2], self.held[option[2]] | {option[1]})
                )
                chosen = next(fitting, None)
                if chosen is None:
                    break
                self._move((chosen[1],), chosen[2])


def _pull(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Returns operator -> the sinks that need its results."""
    found: dict[str, set[str]] = {o: set() for o in problem.operator}
    for output in problem.outputs:
        for o in problem.needed[output.name]:
            found[o].add(output.sink)
    return {o: tuple(sorted(sinks)) for o, sinks in found.items()}
