"""All policies of shared joins by name, and the function that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kigen.plan.shared_joins.window_hull import WindowHull
from kigen.schedule.slices.mandf import AdMandF, MandF
from kigen.schedule.slices.orders import Fifo, Mqt
from kigen.schedule.slices.salvage import Salvage
from kigen.schedule.slices.slice_interface import SlicePolicy

_MAKERS: dict[str, Callable[..., SlicePolicy]] = {
    policy.name: policy for policy in (Mqt, Fifo, MandF, AdMandF, Salvage)
}
SLICE_POLICY_NAMES = tuple(_MAKERS)


class SlicePolicyError(ValueError):
    """The policy does not exist."""


def make_slice_policy(name: str, hull: WindowHull, buffers: Sequence[int | None], **settings: float) -> SlicePolicy:
    """Makes the policy of that name for a join's windows and its streams' buffers. `settings`: beta, ahead,
    period_us.
    """
    if name not in _MAKERS:
        raise SlicePolicyError(f"there is no policy '{name}' for shared joins: write one of {', '.join(_MAKERS)}")
    return _MAKERS[name](hull, buffers, **settings)
