"""True costs that differ from the nominal ones: a factor for each node, one for each node and trial, one for each call
of an operator.

The random factors are lognormal with median 1. Invariant: a trial depends on its seed and the order of calls alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kigen_lab.simulate.nodes.node_simulation import Cost

_DRAWS = 4096


@dataclass(frozen=True)
class Jitter:
    """How much a call takes beside its nominal cost."""

    node: Mapping[str, float] = field(default_factory=dict)  # a node's own factor, 1 where it is not named
    trial: float = 0.0  # spread of the logarithm, drawn once a node and trial
    call: float = 0.0  # spread of the logarithm, drawn for every call

    def trial_of(self, nodes: Sequence[str], seed: Sequence[int]) -> Cost:
        """The costs of one trial."""
        rng = np.random.default_rng(list(seed))
        factors = {node: self.node.get(node, 1.0) * math.exp(rng.normal(0.0, self.trial)) for node in nodes}
        draws: list[float] = []

        def cost(node: str, operator: str, nominal_us: float) -> float:
            if not draws:
                draws.extend(np.exp(rng.normal(0.0, self.call, _DRAWS)).tolist())
            return nominal_us * factors[node] * draws.pop()

        return cost
