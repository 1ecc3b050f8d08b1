"""Builds the operator of a window by its kind."""

from __future__ import annotations

from kigen.lifetimes.windows.sessions import SessionWindow
from kigen.lifetimes.windows.window_operators import (
    PartitionRowsWindow,
    RangeWindow,
    RowsWindow,
    SlidingWindow,
    UnboundedWindow,
    UntilWindow,
    WindowOperator,
)
from kigen.plan.logical import Window, WindowKind

_PLAIN: dict[WindowKind, type[WindowOperator]] = {
    WindowKind.RANGE: RangeWindow,
    WindowKind.NOW: RangeWindow,
    WindowKind.UNBOUNDED: UnboundedWindow,
    WindowKind.ROWS: RowsWindow,
    WindowKind.UNTIL: UntilWindow,
}


def make_window(node: Window, number: int, secret: int = 0) -> WindowOperator:
    """Builds the window operator of the direct method for a window node."""
    if node.kind is WindowKind.PARTITION_ROWS:
        return PartitionRowsWindow(node, number, secret)
    if node.kind is WindowKind.SESSION:
        return SessionWindow(node, number, secret)
    if node.kind is WindowKind.RANGE and node.slide_us is not None:
        return SlidingWindow(node, number)
    return _PLAIN[node.kind](node, number)
