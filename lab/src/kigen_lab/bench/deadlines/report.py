"""Shows `kigen bench deadlines` as a table and a picture: what each policy misses at each load, per deadline class,
beside the bound.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.deadlines.benchmark import BATCHES
from kigen_lab.bench.drawing import save, unframe

_COLOURS = {
    "all": "#444444",
    "fifo": "#9a9aa8",
    "edf": "#c8553d",
    "ats1": "#d9a441",
    "ats": "#e6c98a",
    "bts": "#7a8f4d",
    "pack": "#1f5fa8",
}


def deadlines_table(result: dict[str, Any]) -> RenderableType:
    classes = result["classes_s"]
    title = "SDMR in % (late, shed), of each deadline class and over all"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in ("load", "policy"):
        table.add_column(name)
    for name in (
        *(f"{c:g} s" for c in classes),
        "all",
        "bound",
        "in time/s",
        f"p95 {classes[0]:g} s class",
        "batches",
        "batch p50",
    ):
        table.add_column(name, justify="right")
    before = None
    for cell in result["cells"]:
        if before not in (None, cell["load"]):
            table.add_section()
        before = cell["load"]
        load = f"{cell['of_capacity']:.2f}" + (" (safe)" if cell["load"] == "safe" else "")
        shares = [f"{100 * cell['classes'][str(c)]['sdmr']:.2f}" for c in classes]
        numbers = [f"{100 * cell['sdmr']:.2f}", f"{100 * cell['bound']:.2f}", f"{cell['goodput']:,.0f}"]
        p95 = f"{cell['classes'][str(classes[0])]['p95_ms']:,.0f} ms"
        table.add_row(
            load, cell["policy"], *shares, *numbers, p95, f"{cell['batches']:,}", f"{cell['batch_ms']['p50']:,.0f} ms"
        )
    machine, fixed_ms = result["machine"], result["fixed_s"] * 1000
    heading = (
        f"{machine['cores']} cores, {machine['date']}; capacity {result['capacity']:,.0f} tuples/s; F "
        f"{fixed_ms:.0f} ms; "
    )
    return Group(
        Text(heading + f"{result['settings']['seconds']:.0f} s per cell", style="dim"), table, *_beside(result)
    )


def _beside(result: dict[str, Any]) -> list[Text]:
    """Shows one query alone, and what admission costs."""
    rates = {policy: median(found) for policy, found in result["alone"].items()}
    alone = ", ".join(f"{policy} {rate / 1e6:.2f} M/s" for policy, rate in rates.items())
    costs = ", ".join(f"{one['policy']} {one['policy_ms']:.1f} of {one['ms']:.1f} ms" for one in result["admission"])
    queries = result["admission"][0]["queries"]
    batches = f"; pack over --epoch 0 {rates['pack'] / rates[BATCHES]:.3f}" if BATCHES in rates else ""
    return [
        Text(f"one query without a deadline: {alone}; pack over all {rates['pack'] / rates['all']:.3f}{batches}"),
        Text(f"decision and all of admission, per trigger with {queries} queries: {costs}"),
    ]


def draw_deadlines(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    policies = list(dict.fromkeys(cell["policy"] for cell in result["cells"]))
    heaviest = max(result["cells"], key=lambda cell: cell["of_capacity"])["load"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    bounds = sorted({(c["of_capacity"], 100 * c["bound"]) for c in result["cells"]})
    left.plot(*zip(*bounds, strict=True), color="#888888", linestyle="--", label="bound")
    width = 0.8 / len(policies)
    for place, policy in enumerate(policies):
        mine = sorted((c for c in result["cells"] if c["policy"] == policy), key=lambda c: float(c["of_capacity"]))
        colour = _COLOURS.get(policy, "#7a5c99")
        left.plot(
            [c["of_capacity"] for c in mine], [100 * c["sdmr"] for c in mine], marker="o", color=colour, label=policy
        )
        last = next(c for c in mine if c["load"] == heaviest)
        at = np.arange(len(result["classes_s"])) + (place - (len(policies) - 1) / 2) * width
        right.bar(
            at, [100 * last["classes"][str(c)]["sdmr"] for c in result["classes_s"]], width, color=colour, label=policy
        )
    left.set_xlabel("load, as a share of what `all` processes")
    left.set_title("missed or shed, %", loc="left", fontsize=10)
    right.set_xticks(range(len(result["classes_s"])), [f"{c:g} s" for c in result["classes_s"]])
    right.set_xlabel("deadline")
    right.set_title(f"by deadline, at load {heaviest}, %", loc="left", fontsize=10)
    for axis in (left, right):
        axis.set_ylim(0, 112)  # room for the legend
        axis.set_yticks(range(0, 101, 20))
        axis.grid(color="#dddde6", linewidth=0.6)
        axis.legend(frameon=False, fontsize=8, loc="upper left", ncols=4)
        unframe(axis)
    figure.tight_layout()
    save(figure, target)
