"""Makes the figure of `kigen reproduce lazy-standby`: figures 6 to 8 of the paper on lazy standby, in one picture."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kigen_lab.reproduce.figure import Figure, Request, Table
from kigen_lab.reproduce.lazy_standby.draw import draw
from kigen_lab.reproduce.lazy_standby.experiments import CODECS, cells, reached, run_cells

PUBLISHED = {
    "trials": 30,
    "says": [
        "Bsize 1 about as active standby; growing Bsize nears upstream backup: overhead falls, recovery grows",
        "zlib brings overhead to about 45-60 %, except Bsize 1, where 33 bytes become 41; recovery as without",
    ],
}


def make(request: Request) -> dict[str, Any]:
    trials = request.seeds or (4 if request.quick else 30)
    sweeps = run_cells(
        request.quick, trials, lambda done, of: request.on_progress("lazy standby", done, of), request.workers
    )
    setting = {
        key: value
        for key, value in asdict(cells(request.quick)[0].setting).items()
        if key not in ("standby", "seed", "window_us")
    }
    shared = {"name": request.name, "quick": request.quick, "trials": trials, "setting": setting}
    return {**shared, "sweeps": sweeps, "published": PUBLISHED, "reached": reached(sweeps)}


def tables(result: dict[str, Any]) -> list[Table]:
    found = []
    for sweep, curves in result["sweeps"].items():
        heads = (
            "batch",
            *(f"overhead {codec}, %" for codec in curves),
            "on the wire, %",
            "recovery, ms",
            "of it reconnection",
            "work of N.1, %",
        )
        rows = []
        for index, point in enumerate(next(iter(curves.values()))):
            overheads = (
                f"{100 * curve[index]['overhead']['mean']:.1f} ±{100 * curve[index]['overhead']['sd']:.1f}"
                for curve in curves.values()
            )
            recovery = point["recovery_us"]
            times = (
                f"{recovery['mean'] / 1e3:.0f} ±{recovery['sd'] / 1e3:.0f}",
                f"{point['reconnection_us']['mean'] / 1e3:.0f}",
            )
            wire, work = (f"{100 * point[metric]['mean']:.1f}" for metric in ("overhead_wire", "secondary_work"))
            rows.append((point["label"], *overheads, wire, *times, work))
        trials = len(next(iter(curves.values()))[0]["trials"]["overhead"])
        found.append(Table(f"{sweep}: mean and sd of {trials} trials", heads, tuple(rows)))
    missed = [what for what, one in result["reached"].items() if not one["reached"]]
    return [*found, Table("not reached: " + ("; ".join(missed) if missed else "nothing"), (), ())]


LAZY_STANDBY_FIGURES = {
    "lazy-standby": Figure(
        make,
        draw,
        f"standby: overhead and recovery by batch, {', '.join(CODECS)}, AS, UB, passive (figures 6-8)",
        tables,
    )
}
