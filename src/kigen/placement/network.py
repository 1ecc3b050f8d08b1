"""Routes through the network: the route from each node to each other, and the tree on which a stream reaches its
readers.

A route has the fewest links (each link costs the stream's traffic once), and among those the least delay. Invariant:
the routes from one node form a tree, so a stream to several nodes takes every link once. Cost: one shortest-path search
per node, on first use.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from kigen.placement.problem import Problem, ProblemLink

Route = tuple[tuple[str, str], ...]


class Network:
    """Routes of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._trees: dict[str, dict[str, tuple[int, float, str]]] = {}
        self._out: dict[str, list[ProblemLink]] = defaultdict(list)
        for link in problem.links:
            self._out[link.source].append(link)

    @cached_property
    def is_mesh(self) -> bool:
        """Whether every node has a link to every other. Then no relay saves traffic."""
        count = len(self.problem.nodes)
        return len(self.problem.link) == count * (count - 1)

    def reach(self, source: str) -> dict[str, tuple[int, float, str]]:
        """Returns node -> (links, delay, previous node), for every node that can be reached from `source`."""
        if source not in self._trees:
            best = {source: (0, 0.0, source)}
            waiting = [(0, 0.0, source)]
            while waiting:
                hops, delay, at = heapq.heappop(waiting)
                if (hops, delay) > best[at][:2]:
                    continue
                for link in self._out[at]:
                    there = (hops + 1, delay + link.delay_us, at)
                    if link.target not in best or there[:2] < best[link.target][:2]:
                        best[link.target] = there
                        heapq.heappush(waiting, (*there[:2], link.target))
            self._trees[source] = best
        return self._trees[source]

    def hops(self, source: str, target: str) -> int | None:
        """Returns the number of links between two nodes, or None without a route."""
        found = self.reach(source).get(target)
        return None if found is None else found[0]

    def delay_us(self, source: str, target: str) -> float:
        """Returns the delay between two nodes."""
        return self.reach(source)[target][1]

    def path(self, source: str, target: str) -> Route:
        """Returns the links between two nodes."""
        tree, links = self.reach(source), []
        while target != source:
            links.append((tree[target][2], target))
            target = tree[target][2]
        return tuple(reversed(links))

    def tree(self, origins: Iterable[str], targets: Iterable[str]) -> Route:
        """Returns the links of a stream that is at all `origins` and wanted at all `targets`, outwards.

        Raises ValueError if there is no route.
        """
        starts, links = list(origins), dict[tuple[str, str], None]()
        for target in dict.fromkeys(targets):
            near = [(self.reach(o)[target][:2], o) for o in starts if target in self.reach(o)]
            if not near:
                raise ValueError(f"there is no route from {' or '.join(starts)} to {target}")
            links.update(dict.fromkeys(self.path(min(near)[1], target)))
        return tuple(links)


def wanted_at(problem: Problem, nodes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Returns stream -> the nodes where an operator or a sink wants it."""
    wanted: dict[str, dict[str, None]] = {s.name: {} for s in problem.streams}
    for op in problem.operators:
        for stream in op.inputs:
            wanted[stream][nodes[op.name]] = None
    for output in problem.outputs:
        wanted[output.stream][output.sink] = None
    return {s: tuple(n) for s, n in wanted.items()}


def origins(problem: Problem, nodes: Mapping[str, str], stream: str) -> tuple[str, ...]:
    """Returns the nodes where a stream is born or produced."""
    maker = problem.producer.get(stream)
    return problem.stream[stream].born if maker is None else (nodes[maker],)


def route_all(network: Network, nodes: Mapping[str, str]) -> dict[str, Route]:
    """Returns the routes of all streams that must travel, with the operators on `nodes`."""
    problem = network.problem
    routes = {s: network.tree(origins(problem, nodes, s), targets) for s, targets in wanted_at(problem, nodes).items()}
    return {s: links for s, links in routes.items() if links}


def arrival_us(problem: Problem, nodes: Mapping[str, str], routes: Mapping[str, Route]) -> dict[str, dict[str, float]]:
    """Returns stream -> node -> the time it takes to get there."""
    found: dict[str, dict[str, float]] = {}
    for stream in problem.stream:
        at = dict.fromkeys(origins(problem, nodes, stream), 0.0)
        for a, b in routes.get(stream, ()):
            there = at[a] + problem.link[a, b].time_us(problem.size_bytes[stream])
            at[b] = min(there, at.get(b, there))
        found[stream] = at
    return found


def traffic_of(problem: Problem, routes: Mapping[str, Route]) -> float:
    """Returns the total traffic of the routes."""
    return sum(problem.traffic[s] * len(links) for s, links in routes.items())
