"""Demand of the operators on one node: places them on timelines, and tests which of them fit on a node together.

Operators fed by one source share its timeline, one after the other by their sub-deadlines. Cost: the square of a
timeline's operators on the node, once per set of operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kigen.placement.problem import Problem
from kigen.placement.solver.demand import Curve, Fit, curve, together, within


@dataclass(frozen=True)
class Timelines:
    """Operator -> its timeline, and its place on it: [start, end)."""

    key: dict[str, str]
    start: dict[str, float]
    end: dict[str, float]


def timelines(problem: Problem, operator_us: Mapping[str, float]) -> Timelines:
    """Places operators on timelines. Where timelines meet, a new one begins, since their relative position is
    unknown.
    """
    key: dict[str, str] = {}
    start: dict[str, float] = {}
    end: dict[str, float] = {}
    for name in problem.order:
        op = problem.operator[name]
        feeders = {f"stream {s}" if s not in problem.producer else key[problem.producer[s]] for s in op.inputs}
        if len(feeders) == 1:
            key[name] = feeders.pop()
            start[name] = max((end[p] for p in problem.before[name]), default=0.0)
        else:
            key[name], start[name] = f"operator {name}", 0.0
        end[name] = start[name] + operator_us.get(name, np.inf)
    return Timelines(key, start, end)


def local_fit(problem: Problem, nodes: Mapping[str, str], operator_us: Mapping[str, float], node: str) -> Fit:
    """Tests formula (6) for work that comes once: the work due by the end of an operator's local path fits into that
    path.
    """
    path: dict[str, float] = {}
    for o in problem.order:
        if nodes[o] == node:
            makers = [problem.producer.get(s) for s in problem.operator[o].inputs]
            before = min(path.get(m, 0.0) if m is not None else 0.0 for m in makers)
            path[o] = before + operator_us[o]
    ordered = sorted(path, key=lambda o: path[o])
    done, worst = 0.0, Fit(0.0, 0.0, 0.0)
    for i, o in enumerate(ordered):
        done += problem.work_us[o] / problem.node[node].speed
        if i + 1 == len(ordered) or path[ordered[i + 1]] > path[o] * (1 + 1e-4):
            ratio = done / max(path[o], 1e-9)
            worst = max(worst, Fit(ratio, path[o], 0.0), key=lambda f: f.demand)
    return worst


class NodeDemand:
    """Demand test of the fixed-split model: which operators fit together on a node."""

    def __init__(self, problem: Problem, operator_us: Mapping[str, float]) -> None:
        self.problem = problem
        self.lines = timelines(problem, operator_us)
        self.members: dict[str, list[str]] = {}
        for o in problem.operator:
            self.members.setdefault(self.lines.key[o], []).append(o)
        self.period_us: dict[str, float | None] = {}  # of each timeline, for merged activations
        self.at_once: dict[str, float] = {}
        for line, ops in self.members.items():
            periods = [p for o in ops if (p := problem.period_us[problem.operator[o].output]) is not None]
            length = max(self.lines.end[o] for o in ops) - min(self.lines.start[o] for o in ops)
            self.at_once[line] = together(length, min(periods)) if periods else 1.0
            self.period_us[line] = min(periods) * self.at_once[line] if periods else None
        self._curves: dict[tuple[str, ...], Curve] = {}

    def curves(self, operators: Iterable[str]) -> list[Curve]:
        """Returns the demand of these operators, one curve per timeline."""
        by_line: dict[str, list[str]] = {}
        for o in operators:
            by_line.setdefault(self.lines.key[o], []).append(o)
        return [self._curve_of(line, tuple(sorted(ops))) for line, ops in by_line.items()]

    def _curve_of(self, line: str, operators: tuple[str, ...]) -> Curve:
        if operators not in self._curves:
            lines, many, period = self.lines, self.at_once[line], self.period_us[line]
            self._curves[operators] = curve(
                [lines.start[o] for o in operators],
                [lines.end[o] for o in operators],
                [self.problem.work_us[o] for o in operators],
                None if period is None else period / many,
                many,
            )
        return self._curves[operators]

    def within(self, op: str, begin_us: float, span_us: float) -> float:
        """Returns the work of an operator that is released after `begin_us` and due within `span_us` of it."""
        line = self.lines.key[op]
        start, end, period, tight = self.lines.start[op], self.lines.end[op], self.period_us[line], span_us * 1e-9
        work = self.problem.work_us[op] * self.at_once[line]
        if period is None:
            return work if start >= begin_us - tight and end <= begin_us + span_us + tight else 0.0
        first = np.ceil((begin_us - start - tight) / period)
        last = np.floor((begin_us + span_us - end + tight) / period)
        return float(max(0.0, last - first + 1) * work)

    def fits(self, operators: Iterable[str], speed: float, floor: float) -> bool:
        """Returns whether the operators fit on a node of that speed, with a share of `floor` left free."""
        curves = self.curves(operators)
        if sum(c.density for c in curves) <= speed * (1 - floor):
            return True
        return within(curves, speed, 1 - floor)
