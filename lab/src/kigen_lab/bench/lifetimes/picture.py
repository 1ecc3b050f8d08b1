"""Draws throughput against window size, both logarithmic, a panel per query: figure 4 of the paper with plain Spark and
the kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from kigen_lab.bench.drawing import save, unframe

_LINES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("kigen dt", "range", "DT RANGE", {"color": "#1f5fa8", "marker": "o"}),
    ("kigen nt", "range", "NT RANGE", {"color": "#c8553d", "marker": "o"}),
    ("kigen dt", "rows", "DT ROWS", {"color": "#6fa3d8", "marker": "s"}),
    ("kigen nt", "rows", "NT ROWS", {"color": "#e3a08f", "marker": "s"}),
    ("plain", "range", "plain Spark (RANGE)", {"color": "#444444", "marker": "x", "linestyle": "--"}),
    ("kernel dt", "range", "kernel alone, DT RANGE", {"color": "#1f5fa8", "linestyle": ":"}),
)


def draw_throughput(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    queries = list(dict.fromkeys(cell["query"] for cell in result["cells"]))
    columns = min(3 if len(queries) <= 6 else 4, len(queries))
    rows = -(-len(queries) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.4 * columns, 3.4 * rows + 0.8), sharey=True, squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place < len(queries):
            _panel(axis, queries[place], result["cells"])
        else:
            axis.set_visible(False)
    for row in axes:
        row[0].set_ylabel("tuples per second")
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        handles |= {line.get_label(): line for line in axis.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=6, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    save(figure, target)


def _panel(axis: Any, query: str, cells: list[dict[str, Any]]) -> None:
    for contestant, kind, label, style in _LINES:
        kinds = (kind,) if kind == "rows" else ("range", "session", "until")  # a query has one of the latter
        mine = [c for c in cells if c["query"] == query and c["kind"] in kinds and contestant in c["medians"]]
        points = sorted((c["window"], c["medians"][contestant]) for c in mine)
        if points:
            axis.plot(
                [w for w, _ in points], [rate for _, rate in points], label=label, markersize=4, linewidth=1.4, **style
            )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_title(query, loc="left", fontsize=10)
    axis.set_xlabel("tuples in the window")
    axis.grid(color="#dddde6", linewidth=0.6)
    unframe(axis)
