"""Solves the paper's model: its goals one after the other, then reads placement, routes and sub-deadlines.

Goals in order: least spread of laxity ratios (3); largest least slack in (6); largest sum of slacks; least traffic.
`exact_rows` holds the constraints. Cost: for tens of operators, not hundreds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kigen.placement.network import Route
from kigen.placement.solver.exact_rows import ExactRows
from kigen.placement.solver.mip import Floats, MipSolution
from kigen.placement.solver.split import Shares

_KEEP = 1e-6  # a goal that was reached may get worse by this much for the next goal


class ExactModel(ExactRows):
    """The paper's model."""

    def solve(self, left_s: Callable[[], float], start: Floats | None = None) -> tuple[MipSolution, bool]:
        """Solves the goals one after the other; each one is held while the next is sought.

        `left_s` says how many seconds are left. Returns the last answer with values, and whether all goals were proven.
        """
        goals: list[dict[int, float]] = [dict.fromkeys(self.over.values(), 1.0)] if self.stretch else []
        goals.append(self.spread)
        goals.append({self.least_slack: -1.0})
        goals.append(dict.fromkeys(self.slack.values(), -1.0))
        goals.append({self.x[l, s]: self.problem.traffic[s] for l, s in self.x})
        best, proven = None, True
        for i, goal in enumerate(goals):
            self.mip.minimise(goal)
            found = self.mip.solve(left_s() / (2 if i + 1 < len(goals) else 1), start)
            proven &= found.status == "optimal"
            if found.values is None:
                return (best or found), False
            best, start = found, found.values
            reached = float(sum(cost * found.values[column] for column, cost in goal.items()))
            self.mip.row(goal, upper=reached + _KEEP * max(1.0, abs(reached)))
        assert best is not None
        return best, proven

    def nodes(self, values: Floats) -> dict[str, str]:
        """Returns operator -> node."""
        return {o: n for (n, o), column in self.z.items() if values[column] > 0.5}

    def shares(self, values: Floats) -> Shares:
        """Returns the sub-deadlines per (output, operator)."""
        return {key: float(values[column]) for key, column in self.d.items()}

    def routes(self, values: Floats, nodes: dict[str, str]) -> dict[str, Route]:
        """Returns the chosen links of each stream that lead to a reader, outwards."""
        p, found = self.problem, dict[str, Route]()
        for s, stream in p.stream.items():
            maker = p.producer.get(s)
            at = set(stream.born) if maker is None else {nodes[maker]}
            links = [l for l in p.link if values[self.x[l, s]] > 0.5]
            way: list[tuple[str, str]] = []
            while ready := [l for l in links if l[0] in at and l[1] not in at]:
                way.append(ready[0])
                at.add(ready[0][1])
            wanted = {nodes[o] for o in p.consumers[s]} | {o.sink for o in p.outputs if o.stream == s}
            while idle := [l for l in way if l[1] not in wanted and all(l[1] != other[0] for other in way)]:
                way.remove(idle[0])
            if way:
                found[s] = tuple(way)
        return found

    def exceeded_us(self, values: Floats) -> dict[str, float]:
        """Returns by how much each deadline is exceeded."""
        return {
            o: float(values[c])
            for o, c in self.over.items()
            if values[c] > 1e-3 * np.sqrt(self.problem.output[o].deadline_us)
        }
