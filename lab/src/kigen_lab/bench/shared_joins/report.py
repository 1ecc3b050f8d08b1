"""Shows the numbers of `kigen bench shared-joins` as a table and a picture: work per tuple in the kernel, tuples per
second on Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.ticker import FuncFormatter, LogLocator
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe

_PARTS = (
    ("join_us", "matching and state", "#1f5fa8"),
    ("share_us", "shares", "#6fa3d8"),
    ("deliver_us", "delivering", "#d9d9e0"),
)
_STYLES = {"shared": {"color": "#1f5fa8", "marker": "o"}, "separate": {"color": "#c8553d", "marker": "s"}}


def shared_joins_table(result: dict[str, Any]) -> RenderableType:
    machine, settings = result["machine"], result["settings"]
    about = f"{machine['cores']} cores ({machine['processor']}), {machine['date']}; medians of {settings['trials']}; "
    about += (
        f"widest window {settings['widest']:,} tuples per stream ({settings['kind'].upper()}, {settings['lifetime']})"
    )
    table = Table(
        title="kernel: microseconds per tuple, and tuples per second; Spark: tuples per second",
        title_justify="left",
        box=SIMPLE,
    )
    table.add_column("queries", justify="right")
    table.add_column("plan")
    for name in ("matching and state", "shares", "delivering", "tuples held", "kernel", "Spark", "rows"):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        parts = [f"{cell[key]:.3f}" for key, _, _ in _PARTS]
        spark = "-" if cell["spark_rate"] is None else f"{cell['spark_rate']:,}"
        rows = f"{next(iter(cell['rows'].values())):,}"
        table.add_row(
            str(cell["queries"]), cell["plan"], *parts, f"{cell['held']:,}", f"{cell['kernel_rate']:,}", spark, rows
        )
    return Group(
        Text(about, style="dim"), table, *_figures(result["figures"]), *(_warning(w) for w in result["warnings"])
    )


def _warning(text: str) -> Text:
    return Text(f"WARNING {text}", style="bold red")


def _figures(figures: dict[str, Any]) -> list[Text]:
    if not figures:
        return []
    n = figures["queries"]
    lines = [
        f"matching and state, {n} shared over 1: {figures['join_work_shared_over_one']} (to reach: <= "
        f"{figures['target']:g}: "
        f"{'yes' if figures['met'] else 'NO'}; with the shares {figures['join_work_and_shares_over_one']}; "
        f"{n} separate over 1: {figures['join_work_separate_over_one']})",
        f"tuples held, {n} shared over 1: {figures['state_shared_over_one']}",
        f"kernel, {n} shared over separate: {figures['kernel_shared_over_separate']} x the tuples per second",
    ]
    if "spark_shared_over_separate" in figures:
        lines.append(
            f"Spark, {n} shared over separate: {figures['spark_shared_over_separate']} x the tuples per second"
        )
    return [Text(line) for line in lines]


def draw_shared_joins(result: dict[str, Any], target: Path) -> None:
    """Draws work per tuple as logarithmic bars (left), and throughput against the number of queries (right)."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    with_spark = any(cell["spark_rate"] for cell in result["cells"])
    figure, axes = pyplot.subplots(
        1, 3 if with_spark else 2, figsize=(4.6 * (3 if with_spark else 2), 4.0), squeeze=False
    )
    _bars(axes[0][0], result["cells"])
    _rates(axes[0][1], result["cells"], "kernel_rate", "kernel alone")
    if with_spark:
        _rates(axes[0][2], result["cells"], "spark_rate", "end to end on Spark")
    for axis in axes[0]:
        unframe(axis)
        axis.grid(axis="y", color="#dddde6", linewidth=0.6)
    figure.tight_layout()
    save(figure, target)


def _bars(axis: Any, cells: list[dict[str, Any]]) -> None:
    """Draws bars side by side: parts of a logarithmic bar cannot be stacked."""
    width = 0.27
    for place, (key, label, color) in enumerate(_PARTS):
        heights = [cell[key] or float("nan") for cell in cells]  # separate queries have no shares
        axis.bar([i + (place - 1) * width for i in range(len(cells))], heights, width, label=label, color=color)
    axis.set_xticks(range(len(cells)), [f"{cell['queries']}\n{cell['plan']}" for cell in cells], fontsize=8)
    axis.set_yscale("log")
    axis.set_ylabel("microseconds per tuple")
    axis.set_title("work in the kernel", loc="left", fontsize=10)
    axis.legend(fontsize=8, frameon=False, loc="upper left")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high * 10)  # room for the legend


def _rates(axis: Any, cells: list[dict[str, Any]], key: str, title: str) -> None:
    one = [cell for cell in cells if cell["queries"] == 1]
    for plan, style in _STYLES.items():
        mine = sorted(
            (c["queries"], c[key])
            for c in [*one, *(c for c in cells if c["plan"] == plan and c["queries"] > 1)]
            if c[key]
        )
        axis.plot([n for n, _ in mine], [rate for _, rate in mine], label=plan, markersize=4, linewidth=1.4, **style)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    counts = sorted({cell["queries"] for cell in cells})
    axis.set_xticks(counts, [str(n) for n in counts])
    axis.minorticks_off()
    axis.set_xlabel("queries over one join")
    axis.set_ylabel("tuples per second")
    axis.set_title(title, loc="left", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
