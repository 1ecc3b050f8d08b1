"""Writes warnings and errors about memory: which query holds what, and what the user can do about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kigen.lifetimes.accounting import Holding
from kigen.spark.watch.memory import size_text

_STATE = 0.5  # share of used memory: if operators hold less than this, the current step uses the rest


def names_of(queries: Sequence[str]) -> str:
    """Names queries for a message: "query q15", or "queries a, b, c and 9 more"."""
    if len(queries) == 1:
        return f"query {queries[0]}"
    shown = ", ".join(queries[:3])
    return f"queries {shown} and {len(queries) - 3} more" if len(queries) > 3 else f"queries {shown}"


def holding_text(held: Holding) -> str:
    return f"{held.label} holds {held.tuples:,} tuples in {size_text(held.bytes)}, most of it {held.fills}"


def warning(used: int, limit: int, held: Iterable[Holding]) -> str:
    """Returns the warning for 80 % of the limit and beyond. It names the operators that hold most."""
    largest = sorted(held, key=lambda h: -h.bytes)[:3]
    who = "; ".join(f"{names_of(h.queries)}: {holding_text(h)}" for h in largest if h.bytes >= used // 50)
    share = f"memory: {size_text(used)} of {size_text(limit)} in use ({used / limit:.0%})"
    return f"{share}; {who}" if who else f"{share}; operators hold little of it, the current step holds the rest"


def limit_reached(
    used: int, limit: int, held: Iterable[Holding], working: tuple[str, Sequence[str]] | None = None
) -> str:
    """Returns the error at 100 % of the limit. `working` is the current activity and the queries that it serves."""
    known = sorted(held, key=lambda h: -h.bytes)
    total = sum(h.bytes for h in known)
    taken = f"the workers of the run use {size_text(used)}, and --memory allows {size_text(limit)}"
    if working is not None and (not known or total < _STATE * used):
        doing, queries = working
        most = f"; of its state, {holding_text(known[0])}" if known else ""
        rest = (
            f"about {size_text(max(0, used - total))} of it is not state, but Python itself and the work of one "
            f"batch ({doing}){most}"
        )
        return f"{names_of(queries)} ran out of memory: {taken}; {rest}. {_what_to_do(known[0].fills if known else '')}"
    if not known:
        return f"the run is out of memory: {taken}. {_what_to_do('')}"
    top = known[0]
    return f"{names_of(top.queries)} ran out of memory: {taken}; {holding_text(top)}. {_what_to_do(top.fills)}"


def refused(error: str, limit: int, held: Iterable[Holding], working: tuple[str, Sequence[str]]) -> str:
    """Returns the error for a single allocation that was too large."""
    doing, queries = working
    known = sorted(held, key=lambda h: -h.bytes)
    state = f"; {holding_text(known[0])}" if known else ""
    asked = (
        f"its work ({doing}) asked for more at once than --memory allows ({size_text(limit)}): {error.splitlines()[0]}"
    )
    return f"{names_of(queries)} ran out of memory: {asked}{state}. {_what_to_do(known[0].fills if known else '')}"


def _what_to_do(fills: str) -> str:
    if fills.startswith(("GROUP BY", "DISTINCT")):
        first = "Use a smaller window below it, or group by a key that ends"
    elif fills.startswith("tuples of"):
        first = "A stream of the query is behind the others: check its timestamps, or its LATENESS"
    else:
        first = "Use a smaller window, or join by a key that fewer tuples share"
    return f"{first}; or allow more with --memory (docs/how-to/limit-memory.md)"
