"""Makes the figures of the shared-join paper: processed and dropped by stage, the overload beside its bound, and the
goals.
"""

from __future__ import annotations

from typing import Any

from kigen_lab.reproduce.admandf.draw import draw
from kigen_lab.reproduce.admandf.experiments import run_window_set
from kigen_lab.reproduce.figure import Figure, Request, Table
from kigen_lab.simulate.shared_joins.window_sets import WINDOW_SETS

MQT_DROPS = ("random", "p1", "p4", "p7", "p8")
_SAYS = (
    "adMandF drops nothing and processes at least as much as MQT, FIFO and MandF; rates are cumulative over the stages"
)


def make(request: Request) -> dict[str, Any]:
    name = request.name.removeprefix("admandf-")
    title = f"shared join, {name}"
    result = run_window_set(name, request.quick, lambda done, of: request.on_progress(title, done, of), request.workers)
    published = {"mqt_drops": name in MQT_DROPS, "order": result["order_published"], "says": _SAYS}
    return {
        "name": request.name,
        "quick": request.quick,
        **result,
        "published": published,
        "reached": reached(name, result),
    }


def reached(name: str, result: dict[str, Any]) -> dict[str, bool]:
    """Returns each goal and whether it was reached."""
    stages, last = result["stages"], {label: one["processed"][-1] for label, one in result["stages"].items()}
    found = {
        "order as published": result["order_published"] in (None, result["order"]),
        "MQT drops as published": (stages["MQT"]["dropped_queries"] > 0) == (name in MQT_DROPS),
        "adMandF drops nothing": stages["adMandF"]["dropped_queries"] == 0,
        "adMandF processes at least as FIFO": last["adMandF"] >= last["FIFO"],
        "adMandF within 3 points of MQT": last["adMandF"] >= last["MQT"] - 0.03,
        "salvage drops nothing where FIFO does not": stages["salvage"]["dropped_queries"]
        <= stages["FIFO"]["dropped_queries"],
    }
    for row in result["overload"]:
        dropped, load = row["dropped"], f"{row['times']:g} x, {row['arrivals']}"
        found[f"salvage at most the lesser of FIFO and MQT, {load}"] = dropped["salvage"] <= min(
            dropped["FIFO"], dropped["MQT"]
        )
        found[f"salvage at most 1.1 x the bound, {load}"] = dropped["salvage"] <= 1.1 * row["bound"]
    return found


def tables(result: dict[str, Any]) -> list[Table]:
    stages = tuple(
        (label, *(f"{100 * p:.1f}" for p in one["processed"]), *(f"{100 * d:.2f}" for d in one["dropped"]))
        for label, one in result["stages"].items()
    )
    count = len(result["setting"]["stages"])
    heads = ("policy", *(f"processed {n}" for n in range(1, count + 1)), *(f"dropped {n}" for n in range(1, count + 1)))
    overload = tuple(
        (
            f"{row['times']:g} x, {row['arrivals']}",
            f"{row['bound']:.0f}",
            *(_beside(dropped, row["bound"]) for dropped in row["dropped"].values()),
        )
        for row in result["overload"]
    )
    missed = [what for what, held in result["reached"].items() if not held]
    title = f"{result['name']}, order {result['order']}: % of queries up to each stage"
    return [
        Table(title, heads, stages),
        Table(
            "dropped queries where FIFO drops (times the bound)",
            ("load", "bound", *result["overload"][0]["dropped"]),
            overload,
        ),
        Table("figures", ("not reached",), tuple((what,) for what in missed or ["nothing: all are reached"])),
    ]


def _beside(dropped: int, bound: float) -> str:
    return f"{dropped} ({dropped / bound:.3f})" if bound > 0 else f"{dropped}"


ADMANDF_FIGURES = {
    f"admandf-{name}": Figure(make, draw, f"shared joins: processed and dropped by stage, {about}", tables)
    for name, about in {
        "random": "random windows",
        **{name: f"windows {name.upper()}" for name in WINDOW_SETS if name != "random"},
    }.items()
}
