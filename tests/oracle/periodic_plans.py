"""Draws random plans with given periods, and runs placements of them in virtual time.

A deadline that a placement claims to hold must hold there. A plan has sources with periods, chains, branches, unions,
operators that wait for all inputs, and streams that several queries share. Links have delay and bandwidth, nodes differ
in speed. Counts of tuples are whole numbers, so the nominal work is exactly the work that is done.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
from kigen_lab.simulate.nodes.node_simulation import Cost, simulate_nodes
from kigen_lab.simulate.nodes.outcome import Delivery
from kigen_lab.simulate.nodes.placed import periodic, system_of

from kigen.placement import Placement, Problem, ProblemLink, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream

PERIODS_US = (20_000.0, 40_000.0, 50_000.0, 100_000.0, 200_000.0)
ROUND_US = 200_000.0  # after so long, all periods start again together


@dataclass
class _Draft:
    rng: random.Random
    nodes: list[str]
    streams: list[ProblemStream] = field(default_factory=list)
    operators: list[ProblemOperator] = field(default_factory=list)
    count: dict[str, float] = field(default_factory=dict)  # tuples of each stream
    period: dict[str, float] = field(default_factory=dict)
    query: dict[str, int] = field(default_factory=dict)  # streams of one query arrive together

    def source(self, period_us: float, query: int) -> str:
        name, tuples = f"in{len(self.streams)}", self.rng.choice((1, 2, 4, 8))
        self.streams.append(
            ProblemStream(name, (self.rng.choice(self.nodes),), tuples, period_us, self.rng.choice((50.0, 400.0)))
        )
        self.count[name], self.period[name], self.query[name] = tuples, period_us, query
        return name

    def add(self, inputs: tuple[str, ...], waits: bool = False) -> str:
        rng, name = self.rng, f"o{len(self.operators)}"
        counts = [self.count[s] for s in inputs]
        runs = max(counts) if waits else sum(counts)
        whole = all(c % 2 == 0 for c in counts)  # of a union each input comes on its own
        selectivity = rng.choice((0.5, 1.0, 1.0)) if whole else rng.choice((1.0, 1.0, 1.0, 2.0)) if runs < 16 else 1.0
        out, at = f"s{name[1:]}", (rng.choice(self.nodes),) if rng.random() < 0.25 else ()
        self.streams.append(ProblemStream(out, bytes_per_tuple=rng.choice((50.0, 400.0))))
        self.operators.append(ProblemOperator(name, inputs, out, rng.uniform(0.2, 2.0), selectivity, at, waits))
        self.count[out], self.period[out] = selectivity * runs, min(self.period[s] for s in inputs)
        self.query[out] = self.query[inputs[0]]
        return out


def random_plan(seed: int) -> Problem:
    """Draws two to five nodes and up to six queries of up to nine operators; they use up to 95 % of all processors."""
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(2, 5))]
    nodes = tuple(ProblemNode(n, rng.choice((0.5, 1.0, 1.0, 2.0))) for n in names)
    width = rng.choice((None, 1e6, 10e6))
    links = tuple(ProblemLink(a, b, rng.choice((0.0, 100.0, 1000.0)), width) for a in names for b in names if a != b)
    draft, wanted = _Draft(rng, names), list[str]()
    for query in range(rng.randint(1, 6)):
        wanted += _query(draft, query)
    unread = {o.output for o in draft.operators} - {s for o in draft.operators for s in o.inputs}
    outputs = [ProblemOutput(f"out {s}", s, rng.choice(names), 1e12) for s in dict.fromkeys([*wanted, *sorted(unread)])]
    plan = Problem(nodes, links, tuple(draft.streams), tuple(draft.operators), tuple(outputs))
    scale = _scale(plan, rng.uniform(0.3, 0.95))
    plan = replace(plan, operators=tuple(replace(o, cost_us=o.cost_us * scale) for o in plan.operators))
    return replace(plan, outputs=tuple(replace(o, deadline_us=_deadline_us(rng, plan, o)) for o in outputs))


def _scale(plan: Problem, load: float) -> float:
    """Returns the factor by which costs must grow to reach a load of all nodes.

    It is smaller if a single operator, or the operators that are pinned to a node, would fill that node.
    """
    rates = {
        o: work / period for o, work in plan.work_us.items() if (period := plan.period_us[plan.operator[o].output])
    }
    fastest = max(n.speed for n in plan.nodes)
    limits = [load * sum(n.speed for n in plan.nodes) / sum(rates.values()), 0.7 * fastest / max(rates.values())]
    for node in plan.nodes:
        held = sum(rate for o, rate in rates.items() if plan.operator[o].nodes == (node.name,))
        limits.append(0.7 * node.speed / held if held else limits[0])
    return min(limits)


def _query(draft: _Draft, query: int) -> list[str]:
    rng, period_us = draft.rng, draft.rng.choice(PERIODS_US)
    heads = [draft.source(period_us, query) for _ in range(rng.choice((1, 1, 2, 3)))]
    made = [o.output for o in draft.operators]
    if made and rng.random() < 0.3:
        heads[0:1] = [rng.choice(made)]  # shared with another query
    ends = [draft.add((head,)) for head in heads]
    if len(ends) > 1:
        together = len({(draft.query[s], draft.period[s]) for s in ends}) == 1
        ends = [draft.add(tuple(ends), waits=together and rng.random() < 0.5)]
    for _ in range(rng.randint(0, 5)):
        grown = rng.randrange(len(ends))
        if rng.random() < 0.25:
            ends.append(draft.add((ends[grown],)))
        else:
            ends[grown] = draft.add((ends[grown],))
    return ends if rng.random() < 0.3 else []


def _deadline_us(rng: random.Random, plan: Problem, output: ProblemOutput) -> float:
    """Draws a deadline between what is barely possible and several periods."""
    period = plan.period_us[output.stream] or PERIODS_US[-1]
    slowest = min(n.speed for n in plan.nodes)
    return (
        rng.uniform(1.0, 4.0) * (sum(plan.work_us[o] for o in plan.needed[output.name]) / slowest)
        + rng.uniform(0.3, 2.0) * period
    )


def late_in(plan: Problem, placement: Placement, seed: int, rounds: int = 4, nominal: bool = False) -> list[Delivery]:
    """Returns what is late in virtual time.

    Sources begin together, then with offsets of their own; tuples have their full cost, then less. EDF with tuples that
    cannot be interrupted may do worse with less work, so both count.
    """
    rng = random.Random(seed)
    late: list[Delivery] = []
    for apart in (False, True):
        offsets = {name: offset if apart else 0.0 for name, offset in _offsets(rng, plan).items()}
        for cost in (None, _less(seed)):
            outcome = simulate_nodes(
                system_of(plan, placement, nominal), periodic(plan, rounds * ROUND_US, offsets), "edf", cost=cost
            )
            late += [d for d in outcome.deliveries if d.missed]
    return late


def _offsets(rng: random.Random, plan: Problem) -> dict[str, float]:
    """Draws when sources begin. Streams that an operator waits for begin together."""
    group = {s.name: s.name for s in plan.streams}
    for name in plan.order:
        operator = plan.operator[name]
        if operator.waits:
            first = group[operator.inputs[0]]
            met = {group[s] for s in operator.inputs}
            group = {s: first if g in met else g for s, g in group.items()}
        met = {group[s] for s in operator.inputs}
        group[operator.output] = group[operator.inputs[0]] if len(met) == 1 else operator.output
    begins: dict[str, float] = {}
    for s in plan.streams:
        if s.born:
            begins.setdefault(group[s.name], rng.uniform(0, s.period_us or 0.0))
    return {s.name: begins[group[s.name]] for s in plan.streams if s.born}


def _less(seed: int) -> Cost:
    draw = np.random.default_rng(seed)
    return lambda node, operator, nominal_us: nominal_us * float(draw.uniform(0.3, 1.0))
