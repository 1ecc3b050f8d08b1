"""Warns of deadlines that the costs of a round cannot keep, as far as the app file tells them.

The costs are measured (docs/decisions/026-rounds-in-epochs.md): on two cores, a round of one task takes about
`ROUND_US`. A tuple that just missed a round waits for it and then for its own, so two rounds must fit a deadline.
Invariant: a warning names a deadline that is missed by most tuples, not one that is missed now and then.
"""

from __future__ import annotations

from kigen.language.declarations import AppDecl, QueryDecl
from kigen.language.errors import CqlWarning
from kigen.plan.estimates import Rates
from kigen.plan.logical import Query

ROUND_US = 5_000
_SECOND_US = 1_000_000


def deadline_warnings(declared: AppDecl, queries: tuple[Query, ...], rates: Rates) -> list[CqlWarning]:
    """Returns a warning per query whose deadline is too short, or whose declared work exceeds a core."""
    decls = {s.name.text: s for s in declared.statements if isinstance(s, QueryDecl)}
    found = []
    for query in queries:
        if query.deadline_us is None:
            continue
        wrong = _wrong(query, query.deadline_us, rates)
        if wrong is not None:
            found.append(declared.source.warning(decls[query.name].name.span, *wrong))
    return found


def _wrong(query: Query, deadline_us: int, rates: Rates) -> tuple[str, str] | None:
    least_us = 2 * (ROUND_US + (query.cost_us or 0))
    if deadline_us < least_us:
        message = (
            f"query {query.name} has a deadline of {_ms(deadline_us)}, but a tuple may wait for one round and then for "
            f"its own, {_ms(least_us)} in all"
        )
        return message, f"write DEADLINE {-(-least_us // 1000)} MILLISECONDS or more"
    tuples = sum(rates.get(stream, 0.0) for stream in query.streams)
    cores = tuples * (query.cost_us or 0) / _SECOND_US
    if cores <= 1:
        return None
    message = (
        f"query {query.name} needs {cores:.1f} cores ({tuples:g} tuples per second with COST {query.cost_us} "
        "MICROSECONDS), but a query runs on one, so its deadline will be missed"
    )
    return message, "lower the rate or COST, or shed load with SHED ABOVE n PER SECOND"


def _ms(time_us: int) -> str:
    return f"{time_us / 1000:g} ms"
