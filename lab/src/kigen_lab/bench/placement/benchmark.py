"""Measures how long a placement takes and how far it may be from the least traffic, by nodes and operators.

Plans are random, on a full mesh; depth, fan-out and sharing vary with the seed. For each plan the heuristic runs alone,
then the model with its bound. The gap is that of traffic, given the floor on slack. Time is CPU time of the one thread,
within the limit on wall time. Then the demand test is done on the tasks as they run, and traffic is measured once it
passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kigen.placement.network import Network
from kigen.placement.solver.solve import Limits, fixed_split
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.registration import Say
from kigen_lab.plans.random_plans import random_problem


@dataclass(frozen=True)
class Size:
    """Size of a plan. If there is a figure to reach, it is `gap` within `time_limit_s`."""

    nodes: int
    operators: int
    time_limit_s: float
    gap: float | None = None


SIZES = (
    Size(2, 20, 20),
    Size(3, 50, 20),
    Size(5, 100, 30),
    Size(10, 200, 60, 0.01),
    Size(20, 400, 120, 0.01),
    Size(30, 600, 240),
    Size(50, 1000, 300, 0.05),
)
QUICK = (Size(2, 20, 5), Size(5, 50, 10), Size(10, 100, 20))
SHARINGS = (0.0, 0.2, 0.5)


@dataclass(frozen=True)
class PlacementSettings:
    """What `kigen bench placement` measures."""

    sizes: tuple[Size, ...] = SIZES
    sharings: tuple[float, ...] = SHARINGS
    seed: int = 1
    floor: float = 0.1
    laxity: float = 6.0
    load: float = 0.5
    stretch: float = 1.0  # factor for time limits on a busy machine; figures are then judged by CPU seconds


def run_placement_bench(settings: PlacementSettings, say: Say, done: Callable[[], None]) -> dict[str, Any]:
    """Runs all cells. After Ctrl-C, what was measured so far is kept."""
    result: dict[str, Any] = {"machine": describe_machine(), "settings": _settings(settings), "cells": []}
    try:
        for size, sharing in product(settings.sizes, settings.sharings):
            say(f"{size.nodes} nodes, {size.operators} operators, sharing {sharing:g}: up to {size.time_limit_s:g} s")
            result["cells"].append(_cell(settings, size, sharing))
            done()
    except KeyboardInterrupt:
        say("stopped: the sizes that were done are reported")
    return result


def _cell(settings: PlacementSettings, size: Size, sharing: float) -> dict[str, Any]:
    problem = random_problem(size.nodes, size.operators, settings.seed, settings.load, settings.laxity, sharing)
    network = Network(problem)
    begin, busy = time.monotonic(), time.process_time()
    end = begin + size.time_limit_s * settings.stretch
    limits = Limits(size.time_limit_s * settings.stretch, settings.floor, 1e-3, settings.seed)
    placed, found = fixed_split(
        problem, network, lambda: min(end - time.monotonic(), busy + size.time_limit_s - time.process_time()), limits
    )
    wall, cpu = time.monotonic() - begin, time.process_time() - busy
    depth = max(_depths(problem.order, problem.before).values())
    return {
        "nodes": size.nodes,
        "operators": size.operators,
        "sharing": sharing,
        "outputs": len(problem.outputs),
        "depth": depth,
        "time_limit_s": size.time_limit_s,
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "bound": found.bound,
        "heuristic": {"traffic": found.heuristic_traffic, "gap": _gap(found.heuristic_traffic, found.bound)},
        "model": {
            "traffic": found.traffic,
            "gap": _gap(found.traffic, found.bound),
            "fits": found.fits,
            "spent_s": round(found.spent_s, 2),
        },
        "placement": {
            "traffic": placed.traffic,
            "gap": placed.gap,
            "holds": placed.holds,
            "slack": placed.slack,
            "method": placed.method,
        },
        "figure": None
        if size.gap is None
        else _figure(size, found.fits, _gap(found.traffic, found.bound), found.spent_s),
    }


def _figure(size: Size, fits: bool, gap: float, spent_s: float) -> dict[str, Any]:
    assert size.gap is not None
    return {"gap": size.gap, "reached": fits and gap <= size.gap and spent_s <= size.time_limit_s}


def _depths(order: tuple[str, ...], before: dict[str, tuple[str, ...]]) -> dict[str, int]:
    depth: dict[str, int] = {}
    for o in order:
        depth[o] = 1 + max((depth[p] for p in before[o]), default=0)
    return depth


def _gap(traffic: float, bound: float) -> float:
    return max(0.0, traffic - bound) / traffic if traffic > 0 else 0.0


def _settings(settings: PlacementSettings) -> dict[str, Any]:
    return {
        "seed": settings.seed,
        "floor": settings.floor,
        "laxity": settings.laxity,
        "load": settings.load,
        "stretch": settings.stretch,
        "threads": 1,
    }


def placement_table(result: dict[str, Any]) -> RenderableType:
    table = Table(title="traffic above the bound, and the time it took (one thread)", title_justify="left", box=SIMPLE)
    heads = (
        "nodes",
        "operators",
        "outputs",
        "depth",
        "sharing",
        "heuristic",
        "model",
        "to reach",
        "",
        "model s",
        "after the demand test",
        "all, wall s",
        "all, CPU s",
    )
    for name in heads:
        table.add_column(name, justify="right")
    for cell in result["cells"]:
        figure = cell["figure"]
        wanted = (
            ("", "")
            if figure is None
            else (f"<= {100 * figure['gap']:g} % in {cell['time_limit_s']:g} s", "yes" if figure["reached"] else "NO")
        )
        after = f"{100 * cell['placement']['gap']:.2f} %" if cell["placement"]["holds"] else "does not hold"
        sizes = (str(cell[k]) for k in ("nodes", "operators", "outputs", "depth"))
        gaps = (f"{100 * cell[k]['gap']:.2f} %" for k in ("heuristic", "model"))
        table.add_row(
            *sizes,
            f"{cell['sharing']:g}",
            *gaps,
            *wanted,
            f"{cell['model']['spent_s']:.1f}",
            after,
            f"{cell['wall_s']:.1f}",
            f"{cell['cpu_s']:.1f}",
        )
    machine = result["machine"]
    note = f"{machine['cores']} cores ({machine['processor']}), load {machine['load_before']} before, {machine['date']}"
    return Group(Text(note, style="dim"), table)


def draw_placement_bench(result: dict[str, Any], target: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.9), dpi=110)
    left, right = figure.subplots(1, 2)
    colours = ("#1f5fa8", "#c8553d", "#5a9e4b")
    for colour, sharing in zip(colours, sorted({c["sharing"] for c in result["cells"]}), strict=False):
        mine = [c for c in result["cells"] if c["sharing"] == sharing]
        sizes = [c["operators"] for c in mine]
        for name, style in (("heuristic", ":"), ("model", "-")):
            gaps = [max(0.01, 100 * c[name]["gap"]) for c in mine]
            left.plot(
                sizes, gaps, style, color=colour, marker="o", markersize=3.5, label=f"{name}, sharing {sharing:g}"
            )
        right.plot(
            sizes,
            [c["model"]["spent_s"] for c in mine],
            color=colour,
            marker="o",
            markersize=3.5,
            label=f"sharing {sharing:g}",
        )
    wanted = {(c["operators"], 100 * c["figure"]["gap"]) for c in result["cells"] if c["figure"]}
    left.plot([o for o, _ in wanted], [g for _, g in wanted], "k_", markersize=16, label="to reach")
    for axis, title in (
        (left, "traffic above the bound, % (0.01 stands for none)"),
        (right, "seconds until the model ended"),
    ):
        axis.set_xscale("log")
        axis.set_yscale("log")
        ticks = sorted({c["operators"] for c in result["cells"]})
        names = {c["operators"]: f"{c['operators']}\n{c['nodes']} nodes" for c in result["cells"]}
        axis.set_xticks(ticks, [names[t] for t in ticks], fontsize=7.5)
        axis.minorticks_off()
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_xlabel("operators")
        axis.grid(color="#dddde6", linewidth=0.6)
        axis.legend(fontsize=7, frameon=axis is left, framealpha=0.85)
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
