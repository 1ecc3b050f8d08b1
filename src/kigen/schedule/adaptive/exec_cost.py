"""The paper's C_exec: cost of a tuple on its way through a chain of operators, each of which passes on a share.

C_exec = C1 + th1*C2 + th1*th2*C3 + ... (equations 4 and 7). Cost of all functions here: one step per operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def chain_cost_us(costs_us: Sequence[float], selectivities: Sequence[float]) -> float:
    """Returns the expected cost of one tuple. `selectivities[i]` is what operator i passes on; the last one does not
    matter.
    """
    total, reached = 0.0, 1.0
    for cost_us, selectivity in zip(costs_us, selectivities, strict=True):
        total += reached * cost_us
        reached *= selectivity
    return total


def survivors(cost_us: float, overhead_us: float, deadline_us: float, now_us: float) -> int:
    """Returns S(Q): how many tuples can be finished by the deadline (equation 7)."""
    if cost_us <= 0:
        return 2**62 if deadline_us - now_us >= overhead_us else 0
    return max(0, math.floor((deadline_us - now_us - overhead_us) / cost_us))
