"""Makes a failing app small: fewer queries, fewer rows, fewer clauses, as long as it still fails and time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from oracle.queries import columns_of
from oracle.shapes import App, Body, Derived, Query, Select, SetOp, sources_of, streams_of

Fails = Callable[[App], bool]


def shrink(app: App, fails: Fails, seconds: float = 20.0) -> App:
    """Returns the smallest app found. `fails` must hold for `app`."""
    deadline = time.monotonic() + seconds
    shrunk = True
    while shrunk and time.monotonic() < deadline:
        shrunk = False
        for smaller in candidates(app):
            if time.monotonic() > deadline:
                break
            if still_fails(smaller, fails):
                app, shrunk = smaller, True
                break
    return app


def still_fails(app: App, fails: Fails) -> bool:
    """Whether a candidate fails. An app that is not valid, so that judging it raises, does not count."""
    try:
        return fails(app)
    except Exception:
        return False


def candidates(app: App) -> Iterator[App]:
    """Yields smaller apps, the most promising first."""
    read = {getattr(s, "query", None) or getattr(s, "source", None) for q in app.queries for s in sources_of(q.body)}
    for q in app.queries:
        if q.name not in read and len(app.queries) > 1:
            yield replace(app, queries=tuple(x for x in app.queries if x is not q))
    used = {name for q in app.queries for name in streams_of(app, q.body)}
    if any(s.name not in used for s in app.streams):
        yield replace(app, streams=tuple(s for s in app.streams if s.name in used))
    for k, s in enumerate(app.streams):
        size = len(s.rows)
        while size >= 1:
            for start in range(0, len(s.rows), size):
                rows = s.rows[:start] + s.rows[start + size :]
                yield replace(app, streams=(*app.streams[:k], replace(s, rows=rows), *app.streams[k + 1 :]))
            size //= 2
    for k, q in enumerate(app.queries):
        for body in simpler(q.body, q.name not in read):
            cols = body.cols if isinstance(body, SetOp) else columns_of(body)
            yield replace(app, queries=(*app.queries[:k], replace(q, body=body, cols=cols), *app.queries[k + 1 :]))
        if q.kind is not None and q.name not in read:
            yield replace(app, queries=(*app.queries[:k], relation(q), *app.queries[k + 1 :]))


def relation(q: Query) -> Query:
    return replace(q, kind=None, every_us=None, every_text="")


def simpler(body: Body, free: bool) -> Iterator[Body]:
    """Yields bodies with one clause less. `free`: nothing reads the columns, so they may go, too."""
    if isinstance(body, SetOp):
        if free:
            yield body.left
            yield body.right
        for left in simpler(body.left, False):
            yield replace(body, left=left)
        for right in simpler(body.right, False):
            yield replace(body, right=right)
        return
    if body.where is not None:
        yield replace(body, where=None)
    if body.having is not None:
        yield replace(body, having=None)
    if body.distinct:
        yield replace(body, distinct=False)
    if free and len(body.items) > 1 and not body.star:
        for k in range(len(body.items)):
            yield replace(body, items=body.items[:k] + body.items[k + 1 :])
    yield from _inner(body, free)


def _inner(body: Select, free: bool) -> Iterator[Body]:
    for k, source in enumerate(body.sources):
        if isinstance(source, Derived):
            if free and len(body.sources) == 1:
                yield source.body
            for smaller in simpler(source.body, False):
                yield replace(body, sources=(*body.sources[:k], replace(source, body=smaller), *body.sources[k + 1 :]))
