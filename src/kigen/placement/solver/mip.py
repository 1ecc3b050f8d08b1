"""A mixed-integer program as lists of columns and rows, passed to HiGHS in one piece.

Invariant: rows may be added after a solve, and the next solve starts from the given solution. Nothing of HiGHS leaves
this file. Cost: linear in non-zeros; one thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Terms = Mapping[int, float]
Floats = NDArray[np.float64]


class SolverMissing(ImportError):
    """HiGHS is not installed; placement needs it."""


@dataclass(frozen=True)
class MipSolution:
    """Answer of the solver. `status`: optimal, infeasible, or limit (time ran out). `values` is None without a feasible
    point.
    """

    status: str
    values: Floats | None
    objective: float
    bound: float
    seconds: float


@dataclass
class Mip:
    """Columns and rows of one program."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def column(self, lower: float = 0.0, upper: float = np.inf, cost: float = 0.0, whole: bool = False) -> int:
        """Adds a variable and returns its index. `whole`: only whole numbers."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.cost.append(cost)
        self.whole.append(whole)
        return len(self.cost) - 1

    def binary(self, cost: float = 0.0) -> int:
        """Adds a variable that is 0 or 1."""
        return self.column(0.0, 1.0, cost, True)

    def row(self, terms: Terms, lower: float = -np.inf, upper: float = np.inf) -> None:
        """Adds a constraint."""
        self.index += terms.keys()
        self.value += terms.values()
        self.starts.append(len(self.index))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def minimise(self, terms: Terms) -> None:
        """Sets the objective."""
        self.cost = [0.0] * len(self.cost)
        for column, cost in terms.items():
            self.cost[column] = cost

    def solve(
        self,
        time_limit_s: float,
        start: Sequence[float] | Floats | None = None,
        gap: float = 0.0,
        relaxed: bool = False,
    ) -> MipSolution:
        """Solves the program. `start`: a solution to begin with, at least nearly feasible. `relaxed`: ignores whole
        numbers.
        """
        highspy = _highspy()
        solver = _solver(max(0.1, time_limit_s), gap)
        solver.passModel(self._model(relaxed))
        if start is not None and not relaxed:
            given = highspy.HighsSolution()
            given.col_value = [float(v) for v in start]
            solver.setSolution(given)
        solver.run()
        info = solver.getInfo()
        found = solver.getModelStatus()
        done = {highspy.HighsModelStatus.kOptimal: "optimal", highspy.HighsModelStatus.kInfeasible: "infeasible"}
        has = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values = np.array(solver.getSolution().col_value) if has else None
        bound = info.mip_dual_bound if any(self.whole) and not relaxed else info.objective_function_value
        return MipSolution(
            done.get(found, "limit"),
            values,
            float(info.objective_function_value),
            float(bound),
            float(solver.getRunTime()),
        )

    def _model(self, relaxed: bool) -> Any:
        highspy = _highspy()
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.cost), len(self.row_lower)
        model.col_cost_, model.col_lower_, model.col_upper_ = (
            np.array(v, float) for v in (self.cost, self.lower, self.upper)
        )
        model.row_lower_, model.row_upper_ = np.array(self.row_lower, float), np.array(self.row_upper, float)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self.starts, np.int32)
        model.a_matrix_.index_ = np.array(self.index, np.int32)
        model.a_matrix_.value_ = np.array(self.value, float)
        if not relaxed:
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            model.integrality_ = [kinds[w] for w in self.whole]
        return model


def _highspy() -> Any:
    """Imports HiGHS at the first solve: only apps on nodes need it, and only until their placement is stored."""
    try:
        import highspy
    except ImportError as error:
        raise SolverMissing(
            "placing an app on nodes needs the solver HiGHS (package highspy), which is not installed; "
            "run: pip install 'kigen[nodes]'"
        ) from error
    return highspy


def _solver(time_limit_s: float, gap: float) -> Any:
    solver = _highspy().Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 1)
    solver.setOptionValue("time_limit", float(time_limit_s))
    solver.setOptionValue("mip_feasibility_tolerance", 1e-8)  # times a big M of seconds, in microseconds
    solver.setOptionValue("mip_rel_gap", float(gap))
    return solver
