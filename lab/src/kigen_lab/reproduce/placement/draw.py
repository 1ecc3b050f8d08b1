"""Draws pictures for the paper on placement: what ran when on which node, and the share of late
tuples with its spread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from kigen_lab.simulate.nodes.outcome import NodesOutcome, joined

_COLOURS = {"sensors": "#d94801", "v2v": "#2171b5", "centre": "#969696", "p1": "#2171b5", "p2": "#d94801"}
_NAMES = {"sensors": "sensors", "v2v": "V2V", "centre": "centre"}
_OUTPUTS = (
    ("control", 30.0),
    ("warning", 200.0),
)  # when each is due in the worked example, in which V2V tuples are 100 ms old
_CURVES = {
    "DeadlineAlloc.EDF": ("#238b45", "o"),
    "ExistingAlloc.EDF": ("#2171b5", "s"),
    "DeadlineAlloc.FIFO": ("#fd8d3c", "^"),
    "ExistingAlloc.FIFO": ("#8c2d04", "v"),
}


def timeline(outcome: NodesOutcome, by_operator: bool = False) -> list[dict[str, Any]]:
    """Returns as JSON what ran when: pictures are drawn from it."""
    merged = joined(outcome.segments, by_operator)
    return [
        {
            "node": s.node,
            "task": s.task,
            "operator": s.operator,
            "tuples": s.label,
            "from_ms": s.start_us / 1000,
            "to_ms": s.end_us / 1000,
        }
        for s in merged
    ]


def draw_worked_example(result: dict[str, Any], target: Path) -> None:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(len(result["cases"]), 1, figsize=(9.5, 8.2), sharex=True, layout="constrained")
    for axis, case in zip(axes, result["cases"], strict=True):
        for s in case["segments"]:
            wide = s["to_ms"] - s["from_ms"] > 15
            _bar(
                axis, {"node1": 1, "node2": 0}[s["node"]], s, _COLOURS[s["tuples"]], _NAMES[s["tuples"]] if wide else ""
            )
        for name, at in _OUTPUTS:
            axis.axvline(at, color="black", linewidth=0.9, linestyle="--")
            axis.text(at + 2, 1.52, f"{name} due", fontsize=7, va="bottom")
        described = ", ".join(
            f"{name} {case['ms'][name]:g} ms" + (" (late)" if name in case["late"] else "") for name, _ in _OUTPUTS
        )
        axis.set_title(f"{case['title']}: {described}", fontsize=10, loc="left", pad=12)
        axis.set_yticks([0, 1], ["node 2", "node 1"])
        axis.set_ylim(-0.55, 1.55)
        axis.grid(axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
    for name, label in _NAMES.items():
        axes[0].barh(-5, 0, color=_COLOURS[name], label=f"tuples of {label}")
    axes[0].legend(fontsize=8, loc="upper right")
    axes[-1].set_xlim(0, 400)
    axes[-1].set_xlabel("ms since the sensors' tuples arrived; V2V tuples were born 100 ms before, the centre's 200 ms")
    _save(pyplot, figure, target)


def draw_figure_6(result: dict[str, Any], target: Path) -> None:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(len(result["cases"]), 1, figsize=(8.0, 4.8), sharex=True, layout="constrained")
    rows = {"T1": 1, "T2": 0}
    for axis, case in zip(axes, result["cases"], strict=True):
        for s in case["segments"]:
            _bar(axis, rows[s["task"]], s, _COLOURS[s["tuples"]], f"{s['tuples']}, {s['operator']}")
        for i in case["instances"]:
            place = rows[i["task"]] + (0.0 if i["tuple"] == "p1" else 0.12) - 0.06
            style = {"color": _COLOURS[i["tuple"]], "linewidth": 1.2}
            axis.annotate(
                "",
                (i["created_ms"], place + 0.36),
                (i["created_ms"], place + 0.6),
                arrowprops={"arrowstyle": "->", **style},
            )
            axis.plot([i["deadline_ms"]] * 2, [place - 0.42, place + 0.42], linestyle=":", **style)
            if i["missed"]:
                axis.text(i["deadline_ms"] + 0.05, place + 0.4, f"{i['tuple']} late", fontsize=8, color=style["color"])
        late = [f"{i['tuple']} on {i['task']}" for i in case["instances"] if i["missed"]]
        axis.set_title(
            f"{case['title']}: " + (f"late: {', '.join(late)}" if late else "every deadline holds"),
            fontsize=10,
            loc="left",
        )
        axis.set_yticks([0, 1], ["T2 (O3)", "T1 (O1, O2)"])
        axis.set_ylim(-0.55, 1.7)
        axis.grid(axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
    axes[-1].set_xlim(0, 10.5)
    axes[-1].set_xticks(range(11))
    axes[-1].set_xlabel("time; arrows: an instance is created, dotted: its deadline, in the colour of its tuple")
    _save(pyplot, figure, target)


def draw_dmr(result: dict[str, Any], target: Path) -> None:
    pyplot = _pyplot()
    titles = {"tuples": "every tuple on its own", "parcels": "a source's tuples handed on together"}
    figure, axes = pyplot.subplots(1, len(result["panels"]), figsize=(11.5, 4.6), sharey=True, layout="constrained")
    for axis, panel in zip(axes, result["panels"], strict=True):
        for label, curve in panel["series"].items():
            colour, marker = _CURVES[label]
            mean, error = ([100 * v for v in curve[key]] for key in ("mean", "error"))
            axis.errorbar(
                curve["x"],
                mean,
                yerr=error,
                label=label,
                color=colour,
                marker=marker,
                markersize=4,
                capsize=2,
                linewidth=1.2,
            )
            published = 100 * result["published"]["late"][label]
            axis.plot(
                [result["published"]["v2v_tuples"]],
                [published],
                marker="*",
                markersize=14,
                color=colour,
                markeredgecolor="black",
            )
        axis.plot(
            [], [], marker="*", markersize=11, color="white", markeredgecolor="black", linestyle="", label="published"
        )
        axis.set_title(f"Figure 7, {titles[panel['reading']]}", fontsize=10)
        axis.set_xlabel("V2V tuples")
        axis.grid(color="#dddddd", linewidth=0.6)
    axes[0].set_ylabel("late, % of outputs 1 and 2")
    axes[0].legend(fontsize=8, loc="upper left")
    _save(pyplot, figure, target)


def _bar(axis: Any, row: int, segment: dict[str, Any], colour: str, text: str) -> None:
    begin, length = segment["from_ms"], segment["to_ms"] - segment["from_ms"]
    axis.barh(row, length, left=begin, height=0.62, color=colour, edgecolor="white", linewidth=0.8)
    if text:
        axis.text(begin + length / 2, row, text, ha="center", va="center", color="white", fontsize=8)


def _pyplot() -> Any:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, target: Path) -> None:
    figure.savefig(target, dpi=90)
    pyplot.close(figure)
