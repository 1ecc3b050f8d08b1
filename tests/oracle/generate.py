"""Draws random apps: `generate(seed)`. They contain every operator of DESIGN 8.1, and nothing that a correct engine
could answer in two ways.

A query with (almost) no result tests little, so it is drawn again a few times. That asks the oracle and costs some 10
ms per query.
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
from oracle.families import Family
from oracle.queries import Queries
from oracle.shapes import App, Query, Stream

MOST_STREAMED = 400  # tuples of a query's stream that another may still read
FAMILIES = 0.25  # share of the apps that end with a family of queries over one join


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
    rng = Random(f"family of {seed}")
    if rng.random() < FAMILIES:
        _add_family(rng, scale, seed, streams, queries)
    return App(seed, tuple(streams), tuple(queries))


def generate_family(seed: int) -> App:
    """Draws an app of one family only. It has no queries if the streams drawn are empty or too long."""
    rng = Random(f"only family {seed}")
    scale = Scale.draw(rng)
    streams = [draw_stream(rng, "s1", scale)]
    streams.append(draw_stream(rng, "s2", scale, rng.choice((None, streams[0]))))
    queries: list[Query] = []
    _add_family(rng, scale, seed, streams, queries)
    return App(seed, tuple(streams), tuple(queries))


def _add_family(rng: Random, scale: Scale, seed: int, streams: Sequence[Stream], queries: list[Query]) -> None:
    family = Family(rng, scale, streams, (), count(1_000))
    for i in range(rng.choice((2, 2, 3, 4)) if family.possible else 0):
        queries.append(_with_results(family, seed, streams, queries, f"f{i}"))


def _with_results(drawer: Queries, seed: int, streams: Sequence[Stream], queries: Sequence[Query], name: str) -> Query:
    """Returns the first of a few draws that has results, else the last."""
    for _ in range(6):
        query = drawer.draw(name)
        oracle = Oracle(App(seed, tuple(streams), (*queries, query)), _connection())
        rows = len(oracle.stream(query)) if query.kind is not None else sum(map(len, oracle.relation(query).bags))
        if query.kind is not None and rows > MOST_STREAMED:
            query = replace(query, readable=False)
        if rows > 3:
            break
    return query
