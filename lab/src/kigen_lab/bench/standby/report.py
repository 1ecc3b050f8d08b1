"""Shows `kigen bench standby` as a table and a picture: overhead against recovery, by batch and codec (figures 6-8 of
the paper, on real nodes).
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen_lab.bench.drawing import save, unframe

_CODECS = {"none": "#d94801", "zlib": "#2171b5", "zstd": "#238b45", "lz4": "#6a51a3"}
_NODES = ("up", "leader", "standby", "down")
_PARTS = {
    "detection_s": ("detection", "#e3e3e8"),
    "reconnection_s": ("reconnection", "#bdbdbd"),
    "data_s": ("data recovery", "#6baed6"),
}


def standby_tables(result: dict[str, Any]) -> RenderableType:
    settings, machine, restart = result["settings"], result["machine"], result["restart"]
    table = Table(title="Overhead, and times after a SIGKILL of the leader", title_justify="left", box=SIMPLE)
    for name in ("batch", "codec"):
        table.add_column(name)
    for name in (
        "overhead %",
        "on the wire %",
        "tuples sent %",
        "packed to %",
        "detection ms",
        "reconnection ms",
        "data ms",
        "under way ms",
        "outage ms",
        *(f"CPU us per tuple, {name}" for name in _NODES),
        "load",
    ):
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        tuples = cell["tuples"]
        table.add_row(
            cell["label"],
            cell["compress"],
            *(f"{100 * cell['overhead'][what]:.1f}" for what in ("payload", "wire")),
            f"{100 * tuples['standby'] / max(tuples['leader'], 1):.0f}",
            "-" if cell["backup_packed"] is None else f"{100 * cell['backup_packed']:.0f}",
            *(_ms(cell[key]) for key in _PARTS),
            "-" if cell["under_way_s"] is None else f"{1000 * cell['under_way_s']:,.0f}",
            _ms(cell["outage_s"]),
            *_cpu(cell),
            f"{cell['load']:g}",
        )
    table.add_row("restart", "-", *["-"] * 8, _ms(restart["outage_s"]), *_cpu(restart), f"{restart['load']:g}")
    reports = (
        f"{machine['cores']} cores, {machine['date']}; {settings['query']} at {settings['rate']:g} tuples per second, "
        f"{_kills(settings)} per cell, silence {settings['silence_s']:g} s; load: of the machine when the cell began"
    )
    reached = "reached" if result["figures"]["fifth_reached"] else "not reached"
    verdict = (
        "recovery of batches up to 25 at most 1/5 of restart from checkpoint "
        f"({result['figures']['restart_s']:.1f} s): {reached}"
    )
    return Group(Text(reports, style="dim"), table, Text(verdict + ("" if result["complete"] else "; ended early")))


def _cpu(cell: dict[str, Any]) -> list[str]:
    spent = cell["cpu_us_a_tuple"]
    return [f"{spent[name]:,}" if name in spent else "-" for name in _NODES]


def _kills(settings: dict[str, Any]) -> str:
    return "1 kill" if settings["trials"] == 1 else f"{settings['trials']} kills"


def _ms(seconds: list[float]) -> str:
    return f"{1000 * mean(seconds):,.0f}" + (f" ±{1000 * stdev(seconds):,.0f}" if len(seconds) > 1 else "")


def draw_standby(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
    _recovery(
        left,
        [c for c in result["cells"] if c["compress"] == result["cells"][0]["compress"]],
        result["figures"]["restart_s"],
    )
    _overhead(right, result["cells"])
    settings, machine = result["settings"], result["machine"]
    figure.suptitle(
        f"Standby on real nodes: a {settings['query']} at {settings['rate']:g} tuples per second, {_kills(settings)} a "
        "cell; "
        f"{machine['cores']} cores, load {machine['load_before']:g} before",
        fontsize=10,
    )
    save(figure, target, dpi=100)


def _recovery(axis: Any, cells: list[dict[str, Any]], restart_s: float) -> None:
    below = [0.0] * len(cells)
    for key, (name, colour) in _PARTS.items():
        values = [mean(cell[key]) for cell in cells]
        axis.bar(range(len(cells)), values, 0.7, bottom=below, label=name, color=colour)
        below = [a + b for a, b in zip(below, values, strict=True)]
    axis.axhline(
        restart_s / 5,
        color="#a50f15",
        linewidth=1,
        linestyle="--",
        label=f"1/5 of restart from checkpoint ({restart_s:.1f} s)",
    )
    axis.set_ylim(0, 1.35 * max(*below, restart_s / 5))
    axis.set_title("seconds from the kill to the first new row, not compressed", loc="left", fontsize=10)
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    _names(axis, [cell["label"] for cell in cells])


def _overhead(axis: Any, cells: list[dict[str, Any]]) -> None:
    labels = list(dict.fromkeys(cell["label"] for cell in cells))
    for codec in dict.fromkeys(cell["compress"] for cell in cells):
        mine = [cell for cell in cells if cell["compress"] == codec and cell["standby"] != "passive"]
        at = [labels.index(cell["label"]) for cell in mine]
        for what, style in (("payload", "-"), ("wire", ":")):
            values = [100 * cell["overhead"][what] for cell in mine]
            axis.plot(at, values, style, marker="o", markersize=4, color=_CODECS[codec], label=f"{codec}, {what}")
    for cell in (
        cell for cell in cells if cell["standby"] == "passive"
    ):  # it has no batch, so it stands beside the curves
        for what, mark in (("payload", "s"), ("wire", "D")):
            label = f"{cell['compress']}, copies, {what}"
            axis.plot(
                labels.index("passive"),
                100 * cell["overhead"][what],
                mark,
                color=_CODECS[cell["compress"]],
                label=label,
            )
    axis.set_title("overhead, % of the bytes on up -> mid -> down", loc="left", fontsize=10)
    axis.set_ylim(0, 1.45 * max(100 * cell["overhead"][what] for cell in cells for what in ("payload", "wire")) + 1)
    axis.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
    _names(axis, labels)


def _names(axis: Any, labels: list[str]) -> None:
    axis.set_xticks(range(len(labels)), labels)
    axis.set_xlabel("batch, tuples")
    axis.grid(axis="y", color="#dddde6", linewidth=0.6)
    unframe(axis)
