"""Shows the numbers of `kigen bench shared-joins --overload` as a table and a picture: drops and latency by window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe

_COLORS = ("#1f5fa8", "#6fa3d8", "#e0a458", "#c8553d")


def overload_table(result: dict[str, Any]) -> RenderableType:
    machine, settings = result["machine"], result["settings"]
    about = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['date']}; medians of {settings['trials']}; "
        f"load {settings['load']:g}, BUFFER {settings['buffer']}, {settings['seconds']} s"
    )
    loads = [_table_of(load, settings["windows_s"]) for load in result["loads"]]
    return Group(Text(about, style="dim"), *loads)


def _table_of(load: dict[str, Any], windows_s: Sequence[int]) -> RenderableType:
    costs = ", ".join(f"{us / 1000:.2g}" for us in load["costs_us"])
    title = f"costs {load['costs']} ({costs} ms per tuple): tuples dropped, and p50 of latency in seconds, by window"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("policy")
    table.add_column("tuples", justify="right")
    for window in windows_s:
        table.add_column(f"dropped, {window} s", justify="right")
    table.add_column("in all", justify="right")
    for window in windows_s:
        table.add_column(f"p50, {window} s", justify="right")
    for cell in load["cells"]:
        dropped = [f"{count:,.0f}" for count in cell["dropped"]]
        latency = [f"{ms / 1000:.2f}" for ms in cell["p50_ms"]]
        table.add_row(cell["policy"], f"{cell['tuples']:,.0f}", *dropped, f"{cell['dropped_in_all']:,.0f}", *latency)
    warnings = (Text(f"WARNING {text}", style="bold red") for text in load["warnings"])
    return Group(table, *_figures(load["figures"]), *warnings)


def _figures(figures: dict[str, Any]) -> list[Text]:
    lines = []
    if "mqt_narrow_met" in figures:
        lines.append(
            f"mqt, narrow windows: {figures['mqt_narrow_dropped']:,.0f} dropped (to reach: none: "
            f"{_yes(figures['mqt_narrow_met'])})"
        )
    if "mqt_met" in figures:
        lines.append(f"drops of mqt over fifo: {figures['mqt_over_fifo']} (to reach: <= 1: {_yes(figures['mqt_met'])})")
    if "admandf_met" in figures:
        lines.append(
            f"drops of admandf over the better of fifo and mqt: {figures['admandf_over_better']} "
            f"(to reach: <= 1.05: {_yes(figures['admandf_met'])})"
        )
    return [Text(line) for line in lines]


def _yes(met: bool) -> str:
    return "yes" if met else "NO"


def draw_overload(result: dict[str, Any], target: Path) -> None:
    """Draws drops (left) and p50 of latency (right), a row for each load: a bar per window for each policy."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    loads, windows = result["loads"], result["settings"]["windows_s"]
    figure, rows = pyplot.subplots(len(loads), 2, figsize=(9.6, 3.6 * len(loads)), squeeze=False)
    width = 0.8 / len(windows)
    for axes, load in zip(rows, loads, strict=True):
        cells = load["cells"]
        for place, window in enumerate(windows):
            at = [number + (place - (len(windows) - 1) / 2) * width for number in range(len(cells))]
            style = {"label": f"{window} s", "color": _COLORS[place % len(_COLORS)]}
            axes[0].bar(at, [100 * cell["dropped"][place] / max(1, cell["tuples"]) for cell in cells], width, **style)
            axes[1].bar(at, [cell["p50_ms"][place] / 1000 for cell in cells], width, **style)
        for axis, label in zip(axes, ("tuples dropped, %", "p50 of latency, s"), strict=True):
            axis.set_title(f"costs {load['costs']}", loc="left", fontsize=10)
            axis.set_xticks(range(len(cells)), [cell["policy"] for cell in cells])
            axis.set_ylabel(label)
            axis.legend(title="window", fontsize=8, title_fontsize=8, frameon=False)
            axis.grid(axis="y", color="#dddde6", linewidth=0.6)
            unframe(axis)
    figure.tight_layout()
    save(figure, target)
