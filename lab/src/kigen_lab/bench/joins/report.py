"""Shows the numbers of `kigen bench joins` as tables and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.ticker import FuncFormatter
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe

_STYLES = {"dt": {"color": "#1f5fa8", "marker": "o"}, "nt": {"color": "#c8553d", "marker": "s"}}
_RATES = (("rate", "kigen run, marginal", "#1f5fa8"), ("kernel_rate", "kernel alone", "#6fa3d8"))


def joins_tables(result: dict[str, Any]) -> RenderableType:
    machine, settings = result["machine"], result["settings"]
    about = (
        f"{machine['cores']} cores ({machine['processor']}), {machine['memory_gb']:g} GB, load "
        f"{machine['load_before']:g} before, "
    )
    about += f"{machine['date']}; medians of {settings['trials']}, of memory the most"
    parts: list[RenderableType] = [
        Text(about, style="dim"),
        _versions(result),
        _queries(result),
        _figures(result["figures"]),
    ]
    parts += [Text(f"WARNING {w}", style="bold red") for w in result["warnings"]]
    return Group(*parts)


def _versions(result: dict[str, Any]) -> Table:
    table = Table(title="join of two aggregates by one key: microseconds per version", title_justify="left", box=SIMPLE)
    table.add_column("method")
    for name in ("versions of a side", "join", "whole kernel", "pairs looked at per version"):
        table.add_column(name, justify="right")
    ratios = {"most over fewest": result["flatness"], "most over cheapest": result["growth"]}
    for method in result["flatness"]["join"]:
        for cell in (c for c in result["versions"] if c["lifetime"] == method):
            pairs = f"{cell['pairs_formed_per_version']:.2f}"
            table.add_row(method, f"{cell['versions']:,}", f"{cell['join_us']:.3f}", f"{cell['kernel_us']:.3f}", pairs)
        for name, by in ratios.items():
            table.add_row(method, name, f"{by['join'][method]:.2f}", f"{by['kernel'][method]:.2f}", "", style="dim")
    return table


def _queries(result: dict[str, Any]) -> Table:
    table = Table(title="queries by the real command, and by the kernel alone", title_justify="left", box=SIMPLE)
    table.add_column("query")
    for name in (
        "bids",
        "wall s",
        "events/s, marginal",
        "workers MB",
        "all MB",
        "DuckDB agrees",
        "kernel events/s",
        "kernel MB",
        "pairs per bid",
    ):
        table.add_column(name, justify="right")
    for query in result["queries"]:
        for size in query["sizes"]:
            last = size is query["sizes"][-1]
            wall = "failed" if size["wall_s"] is None else f"{size['wall_s']:.1f}"
            agrees = {True: "yes", False: "NO", None: "-"}[size["agrees"]]
            more = (
                [_whole(query["kernel_rate"]), _whole(query["kernel_peak_mb"]), _whole(query["pairs_per_bid"])]
                if last
                else [""] * 3
            )
            memory = f"{size['workers_mb']:,}", f"{size['tree_mb']:,}"
            table.add_row(
                query["name"], f"{size['bids']:,}", wall, _whole(query["rate"]) if last else "", *memory, agrees, *more
            )
        table.add_section()
    return table


def _figures(figures: list[dict[str, Any]]) -> Table:
    table = Table(title="figures to reach", title_justify="left", box=SIMPLE)
    for name in ("what", "to reach", "reached", ""):
        table.add_column(name, justify="right" if "reach" in name else "left")
    for figure in figures:
        sign = ">=" if figure["least"] else "<="
        table.add_row(
            figure["what"], f"{sign} {figure['target']:,}", _whole(figure["reached"]), "yes" if figure["met"] else "NO"
        )
    return table


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"


def draw_joins(result: dict[str, Any], target: Path) -> None:
    """Draws a version's cost against the number of versions (left), events per second (middle) and the memory of
    workers (right).
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(14.0, 4.2))
    _draw_versions(axes[0], result["versions"])
    _draw_rates(axes[1], result["queries"])
    _draw_memory(axes[2], result["queries"])
    for axis in axes:
        unframe(axis)
        axis.grid(axis="y", color="#dddde6", linewidth=0.6)
    figure.tight_layout()
    save(figure, target)


def _draw_versions(axis: Any, cells: list[dict[str, Any]]) -> None:
    for method, style in _STYLES.items():
        mine = sorted((c["versions"], c["join_us"], c["kernel_us"]) for c in cells if c["lifetime"] == method)
        numbers = [n for n, _, _ in mine]
        axis.plot(numbers, [join for _, join, _ in mine], label=f"join, {method}", markersize=4, linewidth=1.4, **style)
        axis.plot(
            numbers,
            [whole for _, _, whole in mine],
            ":",
            label=f"whole kernel, {method}",
            markersize=3,
            linewidth=1.0,
            **style,
        )
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("versions of one key on each side")
    axis.set_ylabel("microseconds per version")
    axis.set_title("join of two aggregates by one key", loc="left", fontsize=10)
    axis.legend(fontsize=8, frameon=False)


def _draw_rates(axis: Any, queries: list[dict[str, Any]]) -> None:
    width = 0.38
    for place, (key, label, color) in enumerate(_RATES):
        heights = [query[key] or float("nan") for query in queries]
        axis.bar([i + (place - 0.5) * width for i in range(len(queries))], heights, width, label=label, color=color)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_ylabel("events per second")
    axis.set_title("throughput", loc="left", fontsize=10)
    axis.set_xticks(range(len(queries)), [query["name"] for query in queries], fontsize=8)
    axis.legend(fontsize=8, frameon=False)


def _draw_memory(axis: Any, queries: list[dict[str, Any]]) -> None:
    sizes = sorted({size["bids"] for query in queries for size in query["sizes"]})
    width = 0.8 / max(1, len(sizes))
    for place, bids in enumerate(sizes):
        heights = [
            next((s["workers_mb"] for s in query["sizes"] if s["bids"] == bids), float("nan")) for query in queries
        ]
        at = [i + (place - (len(sizes) - 1) / 2) * width for i in range(len(queries))]
        axis.bar(at, heights, width, label=f"{bids:,} bids", color=("#6fa3d8", "#1f5fa8")[place % 2])
    axis.set_ylabel("MB")
    axis.set_title("most resident memory of the Python workers", loc="left", fontsize=10)
    axis.set_xticks(range(len(queries)), [query["name"] for query in queries], fontsize=8)
    axis.legend(fontsize=8, frameon=False)
