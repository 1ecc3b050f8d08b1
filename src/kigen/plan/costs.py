"""Warns of parts of an app that cost more than they may seem: joins that form all pairs, and state that never ends.

The warnings are about the plans that run, after all rewrites: a cross product in the text does no harm if a condition
further out became its key. Invariant: there is one warning per join and per window, at its place in the text. Equal
windows written twice are one state, so they get one warning. There is no warning about a side that never holds more
than one row, such as the result of a global aggregate, because it multiplies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kigen.language.app_text import Source
from kigen.language.errors import CqlWarning
from kigen.plan.estimates import Rates
from kigen.plan.logical import (
    Join,
    Place,
    PlanNode,
    Query,
    Scan,
    Window,
    WindowKind,
)


def cost_warnings(queries: Iterable[Query], source: Source, rates: Rates) -> tuple[CqlWarning, ...]:
    """Returns all warnings, in the order of the text."""
    nodes = [node for query in queries for node in query.root.walk()]
    joins = {n.place: n for n in nodes if isinstance(n, Join) and n.place is not None and not n.left_keys}
    found = [
        (place, _join_warning(source, place, join, rates))
        for place, join in joins.items()
        if not _multiplies_nothing(join)
    ]
    found += _endless_windows(nodes, source)
    return tuple(warning for _, warning in sorted(found, key=lambda each: each[0]))


# --- joins without an equality ---------------------------------------------------------------------------------------


def _multiplies_nothing(join: Join) -> bool:
    return join.left.has_one_row() or join.right.has_one_row()


def _join_warning(source: Source, place: Place, join: Join, rates: Rates) -> CqlWarning:
    left, right = _called(join.left), _called(join.right)
    both = (
        f"each tuple of {left} meets {_rows(join.right, rates)}",
        f"each tuple of {right} meets {_rows(join.left, rates)}",
    )
    costs = ", ".join(dict.fromkeys(both))
    if join.comparisons:
        message = f"this join has no equality, only an inequality: {costs}, as far as the inequality allows"
        return source.warning(
            place, message, "add an equality between both sides, as in ON x.k = y.k AND ..., or narrow the windows"
        )
    message = f"this join is a cross product: {costs}"
    if join.residual is not None:
        message += "; only then is its condition tested"
    return source.warning(
        place, message, "join on an equality between both sides, as in ON x.k = y.k, or narrow the windows"
    )


def _called(side: PlanNode) -> str:
    """Names the streams that a side is made of."""
    return " and ".join(dict.fromkeys(_stream(window) for window in _windows(side))) or "one side"


def _windows(node: PlanNode) -> list[Window]:
    if isinstance(node, Window):
        return [node]
    return [w for child in node.children for w in _windows(child)]


def _stream(window: Window) -> str:
    return window.child.stream if isinstance(window.child, Scan) else "a query's stream"


def _rows(side: PlanNode, rates: Rates) -> str:
    """Describes how many rows of a side are alive, as far as windows and declared rates show it."""
    windows = _windows(side)
    if any(w.kind is WindowKind.UNBOUNDED for w in windows):
        return "every earlier row of the other side, and more each day"
    if windows and all(w.kind is WindowKind.NOW for w in windows):
        return "all rows of the other side at the same instant"
    if windows and all(_is_known(w, rates) for w in windows):
        about = "about" if any(w.kind is WindowKind.RANGE for w in windows) else "up to"
        count = round(side.most_rows(rates))
        return f"{about} {count:,} {'row' if count == 1 else 'rows'}"
    kinds = dict.fromkeys(w.window_text() for w in windows)
    return f"all rows alive on the other side ({', '.join(kinds)})"


def _is_known(window: Window, rates: Rates) -> bool:
    if window.kind is WindowKind.RANGE:
        return isinstance(window.child, Scan) and window.child.stream in rates
    return window.kind in (WindowKind.ROWS, WindowKind.NOW)


# --- state that never ends -------------------------------------------------------------------------------------------


def _endless_windows(nodes: list[PlanNode], source: Source) -> list[tuple[Place, CqlWarning]]:
    keepers: dict[Window, list[PlanNode]] = {}
    places: dict[Window, list[Place]] = {}
    for node in nodes:
        for window in _fed_by(node):
            if node.kept_for_ever(_stream(window)) is not None:
                keepers.setdefault(window, []).append(node)
                places.setdefault(window, []).extend([window.place] if window.place is not None else [])
    found: list[tuple[Place, CqlWarning]] = []
    for window, readers in keepers.items():
        if places[window]:
            first, *others = sorted(set(places[window]))
            found.append((first, _window_warning(source, first, others, window, readers)))
    return found


def _fed_by(keeper: PlanNode) -> Iterator[Window]:
    """Yields the UNBOUNDED windows whose rows reach the operator, with no other operator in between that keeps them."""
    waiting = list(keeper.children)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Window) and node.kind is WindowKind.UNBOUNDED:
            yield node
        elif node.hands_rows_on:
            waiting += node.children


def _window_warning(
    source: Source, place: Place, others: list[Place], window: Window, readers: list[PlanNode]
) -> CqlWarning:
    reader = next((reader for reader in readers if isinstance(reader, Join)), readers[0])
    what = reader.kept_for_ever(_stream(window))
    lines = sorted({source.error(p, "").line for p in others} - {source.error(place, "").line})
    also = f"; the same window: line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    message = f"this window never ends: {what}, so memory grows as long as the app runs{also}"
    return source.warning(
        place,
        message,
        "write [RANGE n UNIT] or [PARTITION BY key ROWS n], unless the stream or its keys come to an end",
    )
