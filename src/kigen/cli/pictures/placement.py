"""Draws a placement: a lane per node, and a column per depth of the plan.

Operators show their sub-deadlines, lanes the load of their node, and streams between nodes their traffic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kigen.cli.pictures.drawing import load_matplotlib
from kigen.placement.explain import time_text, traffic_text, verdict
from kigen.placement.problem import Problem
from kigen.placement.result import Placement

_LANES = ("#eef3fb", "#f3f8ee", "#fbf3ec", "#f6effa", "#eef8f8")
_WIDE, _HIGH, _GAP_X, _GAP_Y = 2.6, 0.62, 0.9, 0.35
_TEXT = 26  # characters of a label


def draw_placement(problem: Problem, placed: Placement, labels: Mapping[str, str], path: Path) -> None:
    """Writes the picture to `path`. `labels` describe operators by name. Raises MatplotlibMissing."""
    load_matplotlib()
    from matplotlib.figure import Figure

    cells = _cells(problem, placed)
    column = _columns(problem)
    placed_rows = _rows(cells, column)
    rows = {
        n.name: max((row + 1 for (lane, _), row in placed_rows.items() if lane == n.name), default=1)
        for n in problem.nodes
    }
    width = (max(column.values()) + 1) * (_WIDE + _GAP_X) + 2.6
    base, top = dict[str, float](), 0.0
    for n in problem.nodes:
        base[n.name] = top
        top += rows[n.name] * (_HIGH + _GAP_Y) + 0.55
    figure = Figure(figsize=(max(7.0, width * 0.85), max(2.5, top * 0.95 + 0.9)), dpi=110)
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.9))
    axes.set_xlim(-2.5, width - 2.4)
    axes.set_ylim(top + 0.05, -0.05)
    axes.axis("off")
    figure.suptitle(
        verdict(problem, placed), fontsize=10, x=0.015, ha="left", color="black" if placed.holds else "#b00020"
    )
    for i, n in enumerate(problem.nodes):
        _lane(axes, problem, placed, n.name, base[n.name], rows[n.name], width, _LANES[i % len(_LANES)])
    places = {}
    for (lane, name), row in placed_rows.items():
        places[name] = (column[name] * (_WIDE + _GAP_X), base[lane] + 0.4 + row * (_HIGH + _GAP_Y))
    _arrows(axes, problem, placed, places)
    for name, (x, y) in places.items():
        _box(axes, problem, placed, labels, name, x, y)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _cells(problem: Problem, placed: Placement) -> list[tuple[str, str]]:
    """Returns (node, name) of sources, operators and outputs, in the order in which they are drawn."""
    found = [(s.born[0], f"stream {s.name}") for s in problem.streams if s.born]
    found += [(placed.nodes[o], f"op {o}") for o in problem.order]
    return found + [(o.sink, f"out {o.name}") for o in problem.outputs]


def _columns(problem: Problem) -> dict[str, int]:
    depth = {f"stream {s.name}": 0 for s in problem.streams if s.born}
    for o in problem.order:
        depth[f"op {o}"] = 1 + max(depth[_origin(problem, s)] for s in problem.operator[o].inputs)
    return depth | {f"out {o.name}": depth[_origin(problem, o.stream)] + 1 for o in problem.outputs}


def _rows(cells: list[tuple[str, str]], column: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Gives each box the first row of its lane in which its column is free."""
    used: dict[tuple[str, int], set[int]] = defaultdict(set)
    found = {}
    for lane, name in cells:
        row = 0
        while column[name] in used[lane, row]:
            row += 1
        used[lane, row].add(column[name])
        found[lane, name] = row
    return found


def _origin(problem: Problem, stream: str) -> str:
    maker = problem.producer.get(stream)
    return f"stream {stream}" if maker is None else f"op {maker}"


def _lane(
    axes: Any, problem: Problem, placed: Placement, node: str, y: float, rows: int, width: float, colour: str
) -> None:
    from matplotlib.patches import Rectangle

    high = rows * (_HIGH + _GAP_Y) + 0.45
    axes.add_patch(Rectangle((-2.45, y), width, high, facecolor=colour, edgecolor="#bbbbbb", linewidth=0.8, zorder=0))
    load = placed.node_loads[node]
    cpu = "" if load.cpu is None else f"CPU {100 * load.cpu:.1f} %\n"
    text = f"speed {problem.node[node].speed:g}\n{cpu}due {100 * load.demand:.1f} %"
    axes.text(-2.3, y + 0.18, node, fontsize=11, fontweight="bold", va="top")
    axes.text(-2.3, y + 0.5, text, fontsize=8.5, va="top", color="#333333")


def _box(
    axes: Any, problem: Problem, placed: Placement, labels: Mapping[str, str], name: str, x: float, y: float
) -> None:
    from matplotlib.patches import FancyBboxPatch

    kind, _, own = name.partition(" ")
    if kind == "op":
        first, second, colour = labels.get(own, own), f"{own}  {time_text(placed.operator_us[own])}", "white"
    elif kind == "out":
        first, second, colour = own, f"deadline {time_text(problem.output[own].deadline_us)}", "#fff3c4"
    else:
        first, second, colour = own, traffic_text(problem, problem.traffic[own]), "#dbe9ff"
    box = FancyBboxPatch(
        (x, y),
        _WIDE,
        _HIGH,
        boxstyle="round,pad=0.02,rounding_size=0.08",
        facecolor=colour,
        edgecolor="#555555",
        zorder=3,
    )
    axes.add_patch(box)
    axes.text(x + _WIDE / 2, y + 0.2, _short(first), fontsize=8, ha="center", va="center", zorder=4)
    axes.text(x + _WIDE / 2, y + 0.45, _short(second), fontsize=7, ha="center", va="center", color="#555555", zorder=4)


def _arrows(axes: Any, problem: Problem, placed: Placement, places: Mapping[str, tuple[float, float]]) -> None:
    edges = [(s, f"op {o.name}", placed.nodes[o.name]) for o in problem.operators for s in o.inputs]
    edges += [(o.stream, f"out {o.name}", o.sink) for o in problem.outputs]
    labelled: set[tuple[str, str]] = set()  # a stream crosses to a node once, even if several operators read it there
    for stream, end, node in edges:
        start = _origin(problem, stream)
        maker = problem.producer.get(stream)
        here = problem.stream[stream].born[0] if maker is None else placed.nodes[maker]
        (x0, y0), (x1, y1) = places[start], places[end]
        crosses = here != node
        style = {
            "color": "#c0392b" if crosses else "#777777",
            "linewidth": 1.6 if crosses else 0.9,
            "arrowstyle": "-|>",
            "mutation_scale": 9,
        }
        bend = "arc3,rad=0.0" if abs(y0 - y1) < 0.1 or crosses else "arc3,rad=0.06"
        axes.annotate(
            "",
            xy=(x1 - 0.03, y1 + _HIGH / 2),
            xytext=(x0 + _WIDE + 0.03, y0 + _HIGH / 2),
            arrowprops={**style, "connectionstyle": bend, "shrinkA": 0, "shrinkB": 0},
            zorder=2,
        )
        if crosses and (stream, node) not in labelled:
            labelled.add((stream, node))
            text = traffic_text(problem, problem.traffic[stream])
            x, y = x0 + _WIDE + 0.45 * (x1 - x0 - _WIDE), y0 + 0.45 * (y1 - y0) + _HIGH / 2
            plate = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
            axes.text(x, y, text, fontsize=7.5, color="#c0392b", ha="center", va="center", bbox=plate, zorder=5)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"
