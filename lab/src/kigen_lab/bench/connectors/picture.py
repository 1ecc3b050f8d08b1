"""Draws `kigen bench connectors`: each figure as a share of the figure to reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from kigen_lab.bench.connectors.parts import JSON, TARGETS, WHAT, Target
from kigen_lab.bench.drawing import save, unframe

_REACHED, _SHORT, _OTHER = "#1f5fa8", "#c0504d", "#888888"
Bar = tuple[str, float, str, str]  # label, share, colour, text at its end


def bars_of(cells: list[dict[str, Any]]) -> list[Bar]:
    """Returns a bar per figure. Rates are divided by their target; of latencies, the target is divided by them."""
    out: list[Bar] = []
    for cell in cells:
        for target in TARGETS[cell["part"]]:
            value = cell["medians"][target.figure]
            label = WHAT[cell["part"]] + ("" if target.figure == "per_s" else f", {target.figure}")
            if cell["contestant"] == "kigen":
                colour = _REACHED if target.met(value) else _SHORT
            else:
                label, colour = f"{label} ({cell['contestant']})", _OTHER
            out.append((label, _share(target, value), colour, f"{value:,.0f} of {target.value:,.0f}"))
    return out


def _share(target: Target, value: float) -> float:
    return value / target.value if target.least else target.value / max(value, 1e-3)


def draw_connectors(result: dict[str, Any], target: Path) -> None:
    """Draws the bars over each other, with a line at the figures to reach."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = bars_of(result["cells"])[::-1]
    figure, axis = pyplot.subplots(figsize=(9.5, 1.2 + 0.34 * max(1, len(bars))))
    axis.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars], height=0.65)
    for place, (_, share, _, text) in enumerate(bars):
        axis.text(share, place, f" {text}", va="center", fontsize=7)
    axis.axvline(1.0, color="#444444", linewidth=1)
    axis.set_xlim(0, 1.35 * max([1.0, *(bar[1] for bar in bars)]))
    axis.set_xlabel("share of the figure to reach; blue: reached, red: not, grey: " + _others(result["cells"]))
    axis.tick_params(labelsize=8)
    unframe(axis)
    figure.tight_layout()
    save(figure, target)


def _others(cells: list[dict[str, Any]]) -> str:
    names = {cell["contestant"].split(",")[0] for cell in cells if cell["part"] == JSON} - {"kigen"}
    return ", ".join(sorted(names)) or "none"
