"""Shows `kigen bench latency` as a table, and its distributions as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe
from kigen_lab.bench.latency.benchmark import BATCHES, PLAIN, ROUNDS

_COLOURS = {ROUNDS: "#1f5fa8", BATCHES: "#d9a441", PLAIN: "#444444"}
_STYLES = {"power": "-", "process": "--"}


def latency_table(result: dict[str, Any]) -> RenderableType:
    table = Table(title="latency in ms, from arrival to commit", title_justify="left", box=SIMPLE)
    for name in ("queries", "tuples/s", "durability", "contestant"):
        table.add_column(name, justify="left" if name in ("durability", "contestant") else "right")
    for name in ("p50", "p95", "p99", "p99.9", "done %"):
        table.add_column(name, justify="right")
    before = None
    for cell in result["cells"]:
        key = cell["queries"], cell["rate"], cell["durability"]
        if before not in (None, key):
            table.add_section()
        shown = [str(cell["queries"]), f"{cell['rate']:,}", cell["durability"]]
        quantiles = [_number(cell["latency_ms"][p]) for p in ("p50", "p95", "p99", "p99.9")]
        table.add_row(
            *(shown if key != before else ["", "", ""]), cell["contestant"], *quantiles, f"{100 * cell['done']:.1f}"
        )
        before = key
    machine, settings = result["machine"], result["settings"]
    heading = (
        f"{machine['cores']} cores, {machine['date']}, load before {machine['load_before']}; "
        f"{settings['turns']} turns of {settings['seconds']:.0f} s per cell"
    )
    failed = [Text(f"FAILED {what}", style="bold red") for what in result.get("failed", ())]
    return Group(Text(heading, style="dim"), table, *failed)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def draw_latency(result: dict[str, Any], target: Path) -> None:
    """Draws the share of tuples above each latency, both axes logarithmic: a panel per load."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    loads = list(dict.fromkeys((cell["queries"], cell["rate"]) for cell in result["cells"]))
    rows = list(dict.fromkeys(queries for queries, _ in loads))
    columns = list(dict.fromkeys(rate for _, rate in loads))
    size = (4.2 * len(columns), 3.2 * len(rows))
    figure, axes = pyplot.subplots(len(rows), len(columns), figsize=size, squeeze=False, sharex=True, sharey=True)
    for cell in result["cells"]:
        axis = axes[rows.index(cell["queries"])][columns.index(cell["rate"])]
        above = above_of(cell["histogram_ms"])
        label = f"{cell['contestant']}, {cell['durability']}"
        axis.plot(
            [at for at, _ in above],
            [share for _, share in above],
            _STYLES.get(cell["durability"], ":"),
            color=_COLOURS.get(cell["contestant"], "#888888"),
            label=label,
            linewidth=1.4,
        )
    for queries, rate in loads:
        axis = axes[rows.index(queries)][columns.index(rate)]
        axis.set_title(f"{queries} {'query' if queries == 1 else 'queries'}, {rate:,} tuples/s", fontsize=9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(1e-4, 1.0)
        axis.grid(alpha=0.25)
        unframe(axis)
    for axis in axes[-1]:
        axis.set_xlabel("latency in ms")
    for line in axes:
        line[0].set_ylabel("share of tuples above")
    axes[0][0].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    save(figure, target)


def above_of(buckets: list[list[float]]) -> list[tuple[float, float]]:
    """Returns, for the upper bound of each bucket, the share of tuples above it."""
    total = left = sum(count for _, _, count in buckets)
    out = [(low, 1.0) for low, _, _ in buckets[:1]]
    for _, high, count in buckets:
        left -= count
        out.append((high, left / total))
    return out
