"""Draws experiments: a panel per figure, the mean with its spread over seeds, and the points that the paper's text
gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

_COLOURS = {
    "TAAT": "#8c2d04",
    "BTS": "#d94801",
    "BTS1": "#fd8d3c",
    "ATS": "#2171b5",
    "ATS1": "#6baed6",
    "pack": "#238b45",
    "Ideal": "#252525",
}
_UNITS = {"sdmr": ("SDMR, %", 100.0), "cpu": ("CPU, %", 100.0), "overhead_us": ("overhead, s", 1e-6)}


def draw_panels(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = result["panels"]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(6.2 * len(panels), 4.4), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        _panel(axis, panel, result["published"])
    figure.savefig(target, dpi=90)
    pyplot.close(figure)


def _panel(axis: Any, panel: dict[str, Any], published: list[dict[str, Any]]) -> None:
    unit, factor = _UNITS[panel["metric"]]
    for label, curve in panel["series"].items():
        values = curve[panel["metric"]]
        means, spread = [m * factor for m in values["mean"]], [s * factor for s in values["sd"]]
        axis.errorbar(
            curve["x"], means, yerr=spread, label=label, marker="o", markersize=3, capsize=2, color=_COLOURS.get(label)
        )
    if panel["metric"] == "sdmr":
        for point in published:
            for label, value in point.get("sdmr", {}).items():
                mark = {"marker": "*", "markersize": 13, "markeredgecolor": "black", "linestyle": ""}
                axis.plot(
                    [point["x"]], [value * factor], color=_COLOURS.get(label), label=f"{label}, published", **mark
                )
    axis.set_title(panel["title"], fontsize=10)
    axis.set_xlabel(panel["across"])
    axis.set_ylabel(unit)
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.legend(fontsize=7)
