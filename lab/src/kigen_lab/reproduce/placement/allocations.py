"""Places the collision warning in the paper's two ways, with sub-deadlines for either.

DeadlineAlloc is the mixed-integer program. ExistingAlloc is SQPR, which has no sub-deadlines and borrows those of
DeadlineAlloc.
"""

from __future__ import annotations

import time
from functools import cache

from kigen.placement import Placement
from kigen.placement.solver.solve import solve
from kigen_lab.plans.paper_example import Shape, paper_example

DEADLINE, EXISTING = "DeadlineAlloc", "ExistingAlloc"


@cache
def allocations(n: int, shape: Shape = "chain") -> dict[str, Placement]:
    """Returns both allocations by the models, with O3 free."""
    problem = paper_example(n, shape)
    return {DEADLINE: solve(problem, time.monotonic, "deadline"), EXISTING: solve(problem, time.monotonic, "sqpr")}
