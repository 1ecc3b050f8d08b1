"""Draws shared joins: processed by stage, dropped by stage, and drops in overload beside the least possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

_STYLES: dict[str, dict[str, Any]] = {
    "MQT": {"color": "#d94801", "marker": "s"},
    "FIFO": {"color": "#6a51a3", "marker": "v"},
    "MandF": {"color": "#969696", "marker": "x", "linestyle": ":"},
    "adMandF, letter": {"color": "#6baed6", "marker": "d", "linestyle": "--"},
    "adMandF": {"color": "#2171b5", "marker": "D"},
    "salvage": {"color": "#238b45", "marker": "o"},
}
_ARRIVALS = {"stages": "stages", "even": "even rate"}


def draw(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(15.5, 4.4), layout="constrained")
    _by_stage(axes[0], result, "processed")
    _by_stage(axes[1], result, "dropped")
    _overload(axes[2], result)
    name = result["name"].removeprefix("admandf-")
    title = "random windows" if name == "random" else name.upper()
    speed, buffer = result["setting"]["speed"], result["setting"]["buffer"]
    figure.suptitle(
        f"Shared join, {title}: MQT's order {result['order']}; {speed:g} tuples/s, buffers of {buffer}", fontsize=11
    )
    figure.savefig(target, dpi=90)
    pyplot.close(figure)


def _by_stage(axis: Any, result: dict[str, Any], what: str) -> None:
    stages = result["setting"]["stages"]
    places = range(1, len(stages) + 1)
    for label, one in result["stages"].items():
        axis.plot(
            places,
            [100 * rate for rate in one[what]],
            label=label,
            markersize=5,
            linewidth=1.4,
            alpha=0.85,
            **_STYLES[label],
        )
    axis.set_xticks(places, [f"{n}\n{rate:g}/s" for n, (_, rate) in zip(places, stages, strict=True)])
    axis.set_xlabel("up to stage")
    axis.set_ylabel(f"{what}, % of the queries on tuples that arrived")
    axis.set_title(what.capitalize(), fontsize=10)
    if what == "dropped":
        axis.set_ylim(bottom=-0.2, top=max(1.0, axis.get_ylim()[1]))
    axis.grid(color="#dddddd", linewidth=0.6)
    axis.legend(fontsize=8)


def _overload(axis: Any, result: dict[str, Any]) -> None:
    rows = result["overload"]
    labels = list(rows[0]["dropped"])
    width = 0.8 / len(labels)
    for place, label in enumerate(labels):
        left = [index - 0.4 + width * (place + 0.5) for index in range(len(rows))]
        heights = [100 * row["dropped"][label] / row["offered"] for row in rows]
        bars = axis.bar(left, heights, width * 0.92, label=label, color=_STYLES[label]["color"], alpha=0.85)
        ratios = [f"{row['dropped'][label] / row['bound']:.2f}" if row["bound"] > 0 else "" for row in rows]
        axis.bar_label(bars, ratios, fontsize=7, padding=1)
    for index, row in enumerate(rows):
        least = 100 * row["bound"] / row["offered"]
        axis.plot(
            [index - 0.42, index + 0.42],
            [least, least],
            color="black",
            linewidth=1.6,
            label="least possible" if not index else None,
        )
    axis.set_xticks(range(len(rows)), [f"{row['times']:g} x\n{_ARRIVALS[row['arrivals']]}" for row in rows])
    axis.set_xlabel("load, in times of that at which FIFO begins to drop")
    axis.set_ylabel("dropped, % of the queries on tuples that left")
    axis.set_title("Overload (numbers: times the least possible)", fontsize=10)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_ylim(top=axis.get_ylim()[1] * 1.22)
    axis.legend(fontsize=8, ncols=3, loc="upper left")
