"""Chooses what turns the messages of a query's root into results: rows for another node, lines, changes or upserts.

A query may give several of them at once, each under a name of its own (`Query.gives`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from kigen.lifetimes.blocks import Fills
from kigen.lifetimes.chunks import State
from kigen.lifetimes.exchange.sent import SentRows
from kigen.lifetimes.operator import Message
from kigen.lifetimes.results.changes import Changes
from kigen.lifetimes.results.lines import Lines
from kigen.lifetimes.results.upserts import Upserts
from kigen.plan.logical import CHANGES, LINES, UPSERTS, Query


class ResultWriter(Protocol):
    """Turns the messages of a query's root into tables."""

    finished: bool

    def step(self, message: Message, now: int | None) -> pa.Table | None:
        """Returns the results of a step that advanced time to `now`. None for `now`: beyond the end of the streams."""

    def finish(self, known: Fills, last: int | None) -> pa.Table | None:
        """Ends the query and returns what is left. `known` are deaths that are settled but lie ahead."""

    @property
    def next_event(self) -> int:
        """The earliest instant at which there are results even if nothing arrives."""

    @property
    def held(self) -> int: ...

    def state(self) -> State: ...

    def load(self, state: State) -> None: ...


def writers_of(query: Query, signed: bool, secret: int, replicated: bool = False) -> dict[str, ResultWriter]:
    """Returns what writes the query's results, by the name of the output."""
    if query.sent:
        return {query.name: SentRows(query, every_step=replicated)}
    makers: dict[str, Callable[[], ResultWriter]] = {
        LINES: lambda: Lines(query, signed),
        CHANGES: lambda: Changes(query, signed, secret),
        UPSERTS: lambda: Upserts(query, signed, secret),
    }
    return {name: makers[kind]() for kind, name in query.gives.items()}
