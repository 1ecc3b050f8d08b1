"""Shows `kigen bench nodes` as a table and a picture: late results of the four combinations, beside virtual time and
the paper.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe
from kigen_lab.bench.nodes.benchmark import PUBLISHED

_COLOURS = {"real nodes": "#1f5fa8", "batches": "#6d9bd1", "tuples": "#b5cbe6", "published": "#c9c9d2"}


def nodes_tables(result: dict[str, Any]) -> RenderableType:
    table = Table(title="Late, % of the results of outputs 1 and 2", title_justify="left", box=SIMPLE)
    table.add_column("combination")
    table.add_column("O3 on")
    for name in (
        "real nodes",
        "virtual, batches",
        "virtual, tuples",
        "published",
        "control",
        "warning",
        "control p95",
        "warning p95",
        "batches",
        "F",
    ):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        control, warning, nodes = cell["queries"]["control"], cell["queries"]["warning"], cell["nodes"].values()
        table.add_row(
            cell["label"],
            cell["o3"],
            *(
                f"{100 * share:.1f}"
                for share in (cell["late"], cell["virtual_batches"], cell["virtual"], PUBLISHED[cell["label"]])
            ),
            *(f"{100 * query['late']:.0f} % of {query['out']}" for query in (control, warning)),
            *(f"{query['latency_ms']['p95'] / 1000:.1f} s" for query in (control, warning)),
            " + ".join(str(node["batches"]) for node in nodes),
            " / ".join(f"{node['fixed_ms']:.0f}" for node in nodes) + " ms",
        )
    settings, machine = result["settings"], result["machine"]
    counts = "; ".join(f"{c['sensors']} sensors, {c['v2v']} V2V, {c['centre']} centre" for c in result["activations"])
    heading = (
        f"{machine['cores']} cores, {machine['date']}; times of the paper x {settings['stretch']:g}, seed "
        f"{settings['seed']}; "
        f"EDF is {settings['edf']}, FIFO is {settings['fifo']}; tuples: {counts}"
    )
    verdict = (
        "the order is the paper's" if not result["broken"] else "not the paper's order: " + "; ".join(result["broken"])
    )
    return Group(Text(heading, style="dim"), table, Text(verdict))


def draw_nodes(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    cells = result["cells"]
    shares = {
        "real nodes": [cell["late"] for cell in cells],
        "batches": [cell["virtual_batches"] for cell in cells],
        "tuples": [cell["virtual"] for cell in cells],
        "published": [PUBLISHED[cell["label"]] for cell in cells],
    }
    labels = {
        "real nodes": "two nodes on Spark",
        "batches": "the same in virtual time, in micro-batches",
        "tuples": "the same in virtual time, tuple by tuple",
        "published": "published (two Raspberry Pis, 15 V2V tuples)",
    }
    figure, axis = pyplot.subplots(figsize=(8, 4.2))
    for place, (name, values) in enumerate(shares.items()):
        at = np.arange(len(cells)) + (place - 1.5) * 0.21
        bars = axis.bar(at, [100 * v for v in values], 0.19, color=_COLOURS[name], label=labels[name])
        axis.bar_label(bars, [f"{100 * v:.0f}" for v in values], fontsize=8, padding=2, color="#444444")
    axis.set_xticks(range(len(cells)), [cell["label"].replace(".", "\n") for cell in cells])
    axis.set_title("late results of outputs 1 and 2, %", loc="left", fontsize=10)
    axis.set_ylim(0, max(105.0 * max(max(v) for v in shares.values()) + 8, 20))
    axis.grid(axis="y", color="#dddde6", linewidth=0.6)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    unframe(axis)
    figure.tight_layout()
    save(figure, target)
