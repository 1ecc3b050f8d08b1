"""Draws the deadline paper's experiment from a seed: query trees, their costs and deadlines, and the tuples that
arrive.

A query is a tree of depth 1-3 and fan-out 1-3 whose leaves read the query's one logical stream. A tuple enters at a
random leaf and climbs to the root as long as each operator passes it on. Printed costs are scaled by 48; without that
nothing is ever overloaded. lambda is the number of tuples per 0.1 s and query. Cost: a few vector operations per query
for millions of tuples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kigen.schedule import ScheduledTask
from kigen.schedule.adaptive.exec_cost import chain_cost_us
from kigen.schedule.policy_interface import Floats, Ints
from kigen_lab.simulate.deadlines.arrival_draws import arrival_times_us

SCALE = 48.0
OPERATOR_US, OVERHEAD_US = (1.0, 20.0), (20.0, 80.0)
DEADLINE_US = (1e6, 5e6)
LAMBDA_UNIT_US = 100_000.0


@dataclass(frozen=True)
class Setting:
    """One cell of an experiment."""

    rate: float = 0.4  # lambda: tuples per query and 0.1 s
    queries: int = 100
    tuples: int = 10_000  # per query
    selectivity: float | None = 0.5  # None: random between 0.01 and 1
    arrivals: str = "poisson"
    scale: float = SCALE
    seed: int = 0


@dataclass(frozen=True)
class Workload:
    """Tasks and their tuples."""

    tasks: tuple[ScheduledTask, ...]
    times_us: Floats  # arrival times of all tuples, in order
    owners: Ints  # task of each tuple
    task_times: tuple[Floats, ...]  # arrival times by task
    task_work: tuple[Floats, ...]  # cumulative true cost of a task's tuples, starting with 0
    overheads_us: tuple[float, float]  # a decision's overhead is uniform between these

    @property
    def size(self) -> int:
        return len(self.times_us)

    @property
    def mean_overhead_us(self) -> float:
        return sum(self.overheads_us) / 2

    @property
    def load(self) -> float:
        """Returns the load of the operators alone."""
        return sum(float(w[-1]) for w in self.task_work) / float(self.times_us[-1])


def draw(setting: Setting) -> Workload:
    rng = np.random.default_rng([setting.seed, setting.queries])
    tasks, times, work = [], [], []
    for index in range(setting.queries):
        tree = _Tree.draw(rng, setting)
        deadline_us = float(rng.uniform(*DEADLINE_US))
        times.append(arrival_times_us(setting.arrivals, rng, setting.tuples, LAMBDA_UNIT_US / setting.rate))
        work.append(np.concatenate(([0.0], np.cumsum(tree.costs_of(rng, setting.tuples)))))
        tasks.append(ScheduledTask(f"q{index}", deadline_us, True, tree.mean_us))
    together = np.concatenate(times)
    order = np.argsort(together, kind="stable")
    owners = np.repeat(np.arange(setting.queries), setting.tuples)[order]
    low, high = OVERHEAD_US
    return Workload(
        tuple(tasks), together[order], owners, tuple(times), tuple(work), (low * setting.scale, high * setting.scale)
    )


@dataclass(frozen=True)
class _Tree:
    """Costs and selectivities by level, leaves first: a row per level, a column per leaf (its path to the root)."""

    costs_us: Floats
    selectivities: Floats

    @staticmethod
    def draw(rng: np.random.Generator, setting: Setting) -> _Tree:
        depth, fan_out = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        leaves = fan_out ** (depth - 1)
        costs, passing = [], []
        for level in range(depth):  # level 0: the leaves; a level's operators are shared by the leaves below them
            nodes = fan_out ** (depth - 1 - level)
            own = rng.uniform(*OPERATOR_US, nodes) * setting.scale
            share = (
                np.full(nodes, setting.selectivity)
                if setting.selectivity is not None
                else rng.uniform(0.01, 1.0, nodes)
            )
            costs.append(np.repeat(own, leaves // nodes))
            passing.append(np.repeat(share, leaves // nodes))
        return _Tree(np.array(costs), np.array(passing))

    @property
    def mean_us(self) -> float:
        """Returns the paper's C_exec, over all leaves."""
        paths = zip(self.costs_us.T.tolist(), self.selectivities.T.tolist(), strict=True)
        return float(np.mean([chain_cost_us(costs, passing) for costs, passing in paths]))

    def costs_of(self, rng: np.random.Generator, tuples: int) -> Floats:
        """Returns the true cost of each tuple, from the operators that it really met."""
        leaf = rng.integers(0, self.costs_us.shape[1], tuples)
        total, alive = np.zeros(tuples), np.ones(tuples, bool)
        for costs, passing in zip(self.costs_us, self.selectivities, strict=True):
            total += np.where(alive, costs[leaf], 0.0)
            alive &= rng.random(tuples) < passing[leaf]
        return total
