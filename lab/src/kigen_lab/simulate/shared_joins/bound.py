"""Computes the least that any policy must drop, by a linear program over all policies that know the future.

Work on a tuple must lie between its arrival and its eviction. The queries that it answers are at most the concave hull
of (work, queries). Tuples leave in the order in which they arrived, so if any schedule exists, one exists that takes
them in that order. T(j), the time by which tuple j and all before it are done, obeys T(j) >= T(j-1) + x(j) / speed,
T(j) >= arrival(j) + x(j) / speed and T(j) <= eviction(j). The program maximises the queries answered on tuples that are
evicted before the end; nobody drops the others.

Invariant: the bound is below the drops of every policy. Tuples are grouped into blocks, from the first one's arrival to
the last one's eviction, and a slice that has begun may end after the eviction. Both only lower the bound. Cost: some
seconds for 1,000 blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from kigen.plan.shared_joins.window_hull import window_hull
from kigen_lab.simulate.shared_joins.join_simulation import Floats, JoinSetting

BLOCK = 10  # tuples of all streams together


@dataclass(frozen=True)
class JoinBound:
    """Numbers of queries. `offered` are those on tuples that are unprocessed at the start and
    evicted before the end.
    """

    offered: int
    dropped: float


def least_drops(setting: JoinSetting, block: int = BLOCK) -> JoinBound:
    """Returns the lower bound on dropped queries, including those on tuples that are there at the start."""
    hull = window_hull(setting.windows)
    released, evicted = _lives_s(setting)
    if not len(released):
        return JoinBound(0, 0.0)
    firsts = np.arange(0, len(released), block)
    counts = np.diff(np.append(firsts, len(released)))
    second = 1.0 / (setting.speed * hull.windows[-1])  # per unit of work
    begins, ends = released[firsts], evicted[firsts + counts - 1] + max(hull.work) * second
    work_s = np.array([sum(hull.work[first - 1 : last]) * second for first, last in hull.groups])
    answers = np.array([float(last - first + 1) for first, last in hull.groups])
    best = _solve(begins, ends, np.outer(counts, work_s), np.outer(counts, answers))
    offered = len(released) * hull.queries
    return JoinBound(offered, max(0.0, offered - best))


def fifo_limit(setting: JoinSetting, steps: int = 30) -> float:
    """Returns the factor on rates at which FIFO, and so every policy, begins to drop."""
    low, high = 0.0, 1.0
    while _fifo_keeps_up(setting.scaled(high)):
        low, high = high, 2 * high
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if _fifo_keeps_up(setting.scaled(middle)) else (low, middle)
    return low


def _fifo_keeps_up(setting: JoinSetting) -> bool:
    released, evicted = _lives_s(setting)
    done = np.arange(1, len(released) + 1) / setting.speed
    return bool((done + np.maximum.accumulate(released - done + 1 / setting.speed) <= evicted).all())


def _solve(begins: Floats, ends: Floats, work_s: Floats, answers: Floats) -> float:
    """Solves the program.

    Variables: T of each block, then the share of each group that is run on it. Rows: T and the block's arrival, T and
    the T before.
    """
    size, parts = work_s.shape
    model = highspy.HighsLp()
    model.sense_ = highspy.ObjSense.kMaximize
    model.num_col_, model.num_row_ = size * (1 + parts), 2 * size - 1
    model.col_cost_ = np.concatenate((np.zeros(size), answers.ravel()))
    model.col_lower_ = np.concatenate((begins, np.zeros(size * parts)))
    model.col_upper_ = np.concatenate((ends, np.ones(size * parts)))
    model.row_lower_ = np.concatenate((begins, np.zeros(size - 1)))
    model.row_upper_ = np.full(2 * size - 1, highspy.kHighsInf)
    shares = size + np.arange(size * parts).reshape(size, parts)
    own = np.column_stack((np.arange(size), shares)), np.column_stack((np.ones(size), -work_s))
    after = np.column_stack((own[0], np.arange(-1, size - 1)))[1:], np.column_stack((own[1], -np.ones(size)))[1:]
    widths = np.concatenate((np.full(size, parts + 1), np.full(size - 1, parts + 2)))
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.append(0, np.cumsum(widths))
    model.a_matrix_.index_ = np.concatenate((own[0].ravel(), after[0].ravel()))
    model.a_matrix_.value_ = np.concatenate((own[1].ravel(), after[1].ravel()))
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"the linear program has no optimum: {solver.getModelStatus()}")
    return float(solver.getInfo().objective_function_value)


def _lives_s(setting: JoinSetting) -> tuple[Floats, Floats]:
    """Returns arrival and eviction of the tuples that are not done at the start and are evicted before the end.

    They are in order, of all streams.
    """
    times = setting.arrivals_s()
    there = np.zeros((setting.buffer - setting.done_at_start) * setting.streams)
    released = np.concatenate((there, times))
    evicted = times[
        setting.done_at_start * setting.streams :
    ]  # the k-th tuple leaves when as many have arrived as the buffers hold
    return released[: len(evicted)], evicted
