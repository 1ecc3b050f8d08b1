"""The paper's C_exec: what a tuple costs on its way through a chain of operators, each passing on a share of what it
gets.

C_exec = C1 + th1*C2 + th1*th2*C3 + ... (equations 4 and 7). Cost of everything here: one step an operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


def chain_cost_us(costs_us: Sequence[float], selectivities: Sequence[float]) -> float:
    """Expected cost of one tuple. `selectivities[i]` is what operator i passes on; the last one's does not matter."""
    total, reached = 0.0, 1.0
    for cost_us, selectivity in zip(costs_us, selectivities, strict=True):
        total += reached * cost_us
        reached *= selectivity
    return total


def survivors(cost_us: float, overhead_us: float, deadline_us: float, now_us: float) -> int:
    """S(Q): how many tuples can be finished by the deadline (equation 7)."""
    if cost_us <= 0:
        return 2**62 if deadline_us - now_us >= overhead_us else 0
    return max(0, math.floor((deadline_us - now_us - overhead_us) / cost_us))


@dataclass
class OperatorCosts:
    """Cost and selectivity of each operator of a chain, learnt: running means that forget with weight `keep` a
    measurement."""

    costs_us: list[float]
    selectivities: list[float]
    keep: float = 0.95
    seen: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = [0.0] * len(self.costs_us)

    def observe(self, operator: int, tuples_in: int, tuples_out: int, busy_us: float) -> None:
        if tuples_in <= 0:
            return
        self.seen[operator] = self.keep * self.seen[operator] + 1.0
        weight = 1.0 / self.seen[operator]
        self.costs_us[operator] += weight * (busy_us / tuples_in - self.costs_us[operator])
        self.selectivities[operator] += weight * (tuples_out / tuples_in - self.selectivities[operator])

    @property
    def tuple_us(self) -> float:
        return chain_cost_us(self.costs_us, self.selectivities)
