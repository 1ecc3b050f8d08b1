"""Packs several random apps into one: names get a prefix, so that one start of a streaming query judges many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oracle.shapes import App, Body, Derived, Named, Query, Select, Source, Text, Windowed


def pack(apps: Sequence[App]) -> App:
    prefixed = [_renamed(app, f"a{app.seed}_") for app in apps]
    return App(
        apps[0].seed, tuple(s for a in prefixed for s in a.streams), tuple(q for a in prefixed for q in a.queries)
    )


def _renamed(app: App, prefix: str) -> App:
    streams = tuple(replace(s, name=prefix + s.name) for s in app.streams)
    return App(app.seed, streams, tuple(_query(q, prefix) for q in app.queries))


def _query(q: Query, prefix: str) -> Query:
    return replace(q, name=prefix + q.name, body=_body(q.body, prefix))


def _body(body: Body, prefix: str) -> Body:
    if isinstance(body, Select):
        return replace(body, sources=tuple(_source(s, prefix) for s in body.sources))
    if isinstance(body, Text):
        return replace(body, sources=tuple(replace(s, source=prefix + s.source) for s in body.sources))
    return replace(body, left=_body(body.left, prefix), right=_body(body.right, prefix))


def _source(source: Source, prefix: str) -> Source:
    if isinstance(source, Windowed):
        return replace(source, source=prefix + source.source)
    if isinstance(source, Named):
        return replace(source, query=prefix + source.query)
    assert isinstance(source, Derived)
    return replace(source, body=_body(source.body, prefix))
