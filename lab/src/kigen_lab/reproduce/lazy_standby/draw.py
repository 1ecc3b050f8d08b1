"""Draws lazy standby: the paper's figures 6 and 7 (overhead against recovery), 8 (with and without compression), and
what the paper did not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

_CODECS = {"none": "#d94801", "zlib": "#2171b5", "zstd": "#238b45"}
_RECONNECTION, _DATA, _OVERHEAD = "#bdbdbd", "#6baed6", "#d94801"


def draw(result: dict[str, Any], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(14, 9), layout="constrained")
    sweeps = result["sweeps"]
    _both(axes[0][0], sweeps["selection"]["none"], "Figure 6: selection, not compressed")
    _both(axes[0][1], sweeps["selection"]["zlib"], "Figure 7: selection, zlib")
    _codecs(axes[1][0], sweeps["selection"])
    _others(axes[1][1], sweeps)
    figure.suptitle(f"Lazy standby in virtual time: mean and sd of {result['trials']} trials", fontsize=12)
    figure.savefig(target, dpi=90)
    pyplot.close(figure)


def _both(axis: Any, points: list[dict[str, Any]], title: str) -> None:
    """Draws recovery by its parts as bars, and overhead as a line."""
    places = range(len(points))
    back = [p["reconnection_us"]["mean"] / 1e3 for p in points]
    data = [p["data_recovery_us"]["mean"] / 1e3 for p in points]
    spread = [p["recovery_us"]["sd"] / 1e3 for p in points]
    axis.bar(places, back, 0.7, label="reconnection", color=_RECONNECTION)
    axis.bar(
        places,
        data,
        0.7,
        bottom=back,
        yerr=spread,
        capsize=2,
        label="data recovery (sd of both)",
        color=_DATA,
        ecolor="#555555",
    )
    axis.set_ylabel("recovery, ms from detection")
    axis.set_ylim(0, max(b + d + s for b, d, s in zip(back, data, spread, strict=True)) * 1.3)
    _names(axis, points, title)
    other = axis.twinx()
    values, bars = [100 * p["overhead"]["mean"] for p in points], [100 * p["overhead"]["sd"] for p in points]
    style = {"color": _OVERHEAD, "marker": "o", "markersize": 4, "capsize": 2}
    other.errorbar(places[:-1], values[:-1], yerr=bars[:-1], label="overhead", **style)
    other.errorbar(places[-1:], values[-1:], yerr=bars[-1:], **style)
    other.set_ylabel("overhead, % of the leader's bytes")
    other.set_ylim(0, 90)
    lines = [axis.get_legend_handles_labels(), other.get_legend_handles_labels()]
    other.legend(lines[0][0] + lines[1][0], lines[0][1] + lines[1][1], fontsize=8, loc="upper center", ncols=3)


def _codecs(axis: Any, curves: dict[str, list[dict[str, Any]]]) -> None:
    for codec, points in curves.items():
        values = [100 * p["overhead"]["mean"] for p in points]
        _line(axis, values, color=_CODECS[codec], marker="o", markersize=4, label=f"overhead, {codec}")
    _names(axis, next(iter(curves.values())), "Figure 8: with and without compression")
    axis.set_ylabel("overhead, % of the leader's bytes")
    axis.set_ylim(0, 90)
    other = axis.twinx()
    for size, (codec, points) in zip((8, 5, 2), curves.items(), strict=True):  # the curves lie on one another
        times = [p["recovery_us"]["mean"] / 1e3 for p in points]
        _line(
            other, times, color=_CODECS[codec], linestyle=":", marker="s", markersize=size, label=f"recovery, {codec}"
        )
    other.set_ylabel("recovery, ms from detection (dotted)")
    other.set_ylim(bottom=0)
    lines = [axis.get_legend_handles_labels(), other.get_legend_handles_labels()]
    other.legend(lines[0][0] + lines[1][0], lines[0][1] + lines[1][1], fontsize=8, loc="upper center", ncols=2)


def _others(axis: Any, sweeps: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    shown = (
        ("selection", "none", "selection, acks at random", "#d94801"),
        ("regular acks", "none", "selection, acks at exactly equal times", "#6a51a3"),
        ("window", "none", "aggregate over a RANGE window", "#252525"),
        ("window", "zlib", "the same, zlib", "#969696"),
    )
    labels = [p["label"] for p in sweeps["selection"]["none"]]
    for sweep, codec, label, colour in shown:
        points = sweeps[sweep][codec]
        active = points[0]["overhead"]["mean"] if codec == "none" else sweeps[sweep]["none"][0]["overhead"]["mean"]
        values = [100 * p["overhead"]["mean"] / active for p in points]
        places = [labels.index(p["label"]) for p in points]
        _line(axis, values, places, marker="o", markersize=4, color=colour, label=label)
    _names(axis, sweeps["selection"]["none"], "A node with memory needs every tuple; regular acks give a step")
    axis.set_ylabel("overhead, % of active standby's (not compressed)")
    axis.set_ylim(0, 125)
    axis.legend(fontsize=8, loc="upper right")


def _line(axis: Any, values: list[float], places: list[int] | None = None, **style: Any) -> None:
    """Draws a curve over the batches. Passive standby, the last point, is no batch: it stands alone."""
    places = list(range(len(values))) if places is None else places
    axis.plot(places[:-1], values[:-1], **style)
    axis.plot(places[-1:], values[-1:], **{**style, "label": None})


def _names(axis: Any, points: list[dict[str, Any]], title: str) -> None:
    axis.set_xticks(range(len(points)), [p["label"] for p in points], fontsize=8)
    axis.set_xlabel("batch, tuples")
    axis.set_title(title, fontsize=10)
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
