"""Rough sizes of relations: how many rows are alive at a time, from windows and declared rates.

The binder uses them to order joins, and warnings use them to say what a join costs. Each plan node estimates its own
rows (`PlanNode.rows_alive`, `PlanNode.most_rows`). Invariant: an estimate grows with its windows. A stream without a
declared rate counts as one of a thousand tuples per second, so its estimates only separate wider windows from narrower
ones. Cost: a walk over the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kigen.plan.logical.app import SourceStream

Rates = Mapping[str, float]
ENDLESS = 1e12  # rows of a relation that never loses a row
DEFAULT_RATE = 1000.0  # tuples per second of a stream without a declared rate
KEPT_SHARE = 0.3  # share of rows that a filter or an inequality keeps


def declared_rates(streams: Iterable[SourceStream]) -> dict[str, float]:
    """Returns the tuples per second of the synthetic streams."""
    rates = {s.name: s.source.option("rate") for s in streams if s.source.name.lower() == "synthetic"}
    return {name: float(rate) for name, rate in rates.items() if rate is not None}


def joined_rows(left: float, right: float, how: str) -> float:
    """Estimates the rows of a join on equal keys (`equal`), on an inequality (`ordered`), or of all pairs (`cross`)."""
    if how == "equal":
        return max(left, right)
    return min(ENDLESS**2, left * right * (KEPT_SHARE if how == "ordered" else 1.0))
