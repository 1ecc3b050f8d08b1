"""Random apps: `generate(seed)`. Every operator of DESIGN 8.1 turns up; nothing a correct engine could answer in two ways does.

A query with (almost) no result tests little, so it is drawn again a few times; that asks the oracle, which costs some 10 ms a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from random import Random

import duckdb
from oracle.data import Scale, draw_stream
from oracle.evaluate import Oracle, connection
from oracle.queries import Queries
from oracle.shapes import App, Query, Stream

MOST_STREAMED = 400  # tuples of a query's stream that another may still read


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return connection()


def generate(seed: int) -> App:
    rng = Random(seed)
    scale = Scale.draw(rng)
    streams: list[Stream] = []
    for name in rng.sample(("readings", "s1", "s2", "cars"), rng.choice((1, 2, 2, 3))):
        like = rng.choice(streams) if streams and rng.random() < 0.35 else None
        streams.append(draw_stream(rng, name, scale, like))
    queries: list[Query] = []
    fresh = count()
    for i in range(1 if scale.most_rows > 100 else rng.choice((1, 2, 2, 3, 4))):
        drawer = Queries(rng, scale, streams, queries, fresh)
        queries.append(_with_results(drawer, seed, streams, queries, f"q{i}"))
    return App(seed, tuple(streams), tuple(queries))


def _with_results(drawer: Queries, seed: int, streams: Sequence[Stream], queries: Sequence[Query], name: str) -> Query:
    """The first of a few draws that has results, else the last."""
    for _ in range(6):
        query = drawer.draw(name)
        oracle = Oracle(App(seed, tuple(streams), (*queries, query)), _connection())
        rows = len(oracle.stream(query)) if query.kind is not None else sum(map(len, oracle.relation(query).bags))
        if query.kind is not None and rows > MOST_STREAMED:
            query = replace(query, readable=False)
        if rows > 3:
            break
    return query
