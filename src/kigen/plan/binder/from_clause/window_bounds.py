"""Binds window_start() and window_end(): the multiples of the slide around the instant.

The calls become columns of the one SLIDE window in FROM. Those columns have names that no user can write, so that `*`
does not show them.
"""

from __future__ import annotations

from sqlglot import exp

from kigen.language.app_text import Source, span_of
from kigen.language.declarations import WindowDecl
from kigen.plan.binder.expressions.binding import place_of
from kigen.plan.logical import WINDOW_END, WINDOW_START

_CALLS = {"window_start": WINDOW_START, "window_end": WINDOW_END}


def bind_window_bounds(source: Source, select: exp.Select) -> None:
    """Replaces the calls in a SELECT by columns, and marks the window that has to have them."""
    calls = [
        node
        for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query))
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in _CALLS
    ]
    if not calls:
        return
    inputs = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    sliding = [table for table in inputs if _slides(table)]
    if len(sliding) != 1 or calls[0].expressions:
        name = str(calls[0].this).lower()
        found = "takes no argument" if calls[0].expressions else "needs one window with SLIDE in FROM"
        hint = f"write {name}() and s [RANGE n SECONDS SLIDE m SECONDS]"
        raise source.error(place_of(source, calls[0]), f"{name}() {found}", hint)
    sliding[0].meta["bounds"] = True
    for call in calls:
        column = exp.Column(this=exp.Identifier(this=_CALLS[str(call.this).lower()], quoted=True))
        column.meta["span"] = span_of(call) or place_of(source, call)
        column.this.meta["span"] = column.meta["span"]
        call.replace(column)


def _slides(table: exp.Expr) -> bool:
    window: WindowDecl | None = table.meta.get("window")
    return window is not None and window.slide_us is not None


def shown(name: str) -> str:
    """Returns a column's name as people read it."""
    return f"{name[1:]}()" if name in _CALLS.values() else name
