"""Draws true costs that differ from nominal ones.

There is a factor per node, one per node and trial, and one per call of an operator. Random factors are lognormal with
median 1. Invariant: a trial depends only on its seed and on the order of calls.
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
    """How true costs differ from nominal ones."""

    node: Mapping[str, float] = field(default_factory=dict)  # factor of a node; 1 if it is not listed
    trial: float = 0.0  # spread of the logarithm, drawn once per node and trial
    call: float = 0.0  # spread of the logarithm, drawn per call

    def trial_of(self, nodes: Sequence[str], seed: Sequence[int]) -> Cost:
        """Returns the costs of one trial."""
        rng = np.random.default_rng(list(seed))
        factors = {node: self.node.get(node, 1.0) * math.exp(rng.normal(0.0, self.trial)) for node in nodes}
        draws: list[float] = []

        def cost(node: str, operator: str, nominal_us: float) -> float:
            if not draws:
                draws.extend(np.exp(rng.normal(0.0, self.call, _DRAWS)).tolist())
            return nominal_us * factors[node] * draws.pop()

        return cost
