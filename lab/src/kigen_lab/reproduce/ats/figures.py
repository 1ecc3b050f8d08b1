"""Makes the figures of the paper on deadlines, and checks the order of the policies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from kigen_lab.reproduce.ats import experiments
from kigen_lab.reproduce.ats.published import POINTS
from kigen_lab.reproduce.draw import draw_panels
from kigen_lab.reproduce.experiment import run_jobs
from kigen_lab.reproduce.figure import Figure, Request, Table

PANELS: dict[str, Callable[[bool], list[experiments.Panel]]] = {
    "ats-batch": experiments.batch,
    "ats-kp": experiments.kp,
    "ats-ki": experiments.ki,
    "ats-overhead": experiments.overhead,
    "ats-sdmr-fixed": experiments.sdmr_fixed,
    "ats-sdmr-random": experiments.sdmr_random,
    "ats-cpu": experiments.cpu,
    "ats-sdmr-300": experiments.sdmr_300,
    "ats-zipf": experiments.zipf,
}
_ABOUT = {
    "ats-batch": "deadlines: missed share of BTS by batch size and slot",
    "ats-kp": "deadlines: ATS by its controller's proportional gain",
    "ats-ki": "deadlines: ATS by its controller's integral gain",
    "ats-overhead": "deadlines: time spent on scheduling, by rate",
    "ats-sdmr-fixed": "deadlines: missed share by rate, selectivity 0.5",
    "ats-sdmr-random": "deadlines: missed share by rate, random selectivity",
    "ats-cpu": "deadlines: processor use by rate",
    "ats-sdmr-300": "deadlines: missed share by rate, 300 queries",
    "ats-zipf": "deadlines: missed share by rate, Zipf gaps between arrivals",
}
ORDER = ("TAAT", "BTS", "ATS", "ATS1", "Ideal")


def make(request: Request) -> dict[str, Any]:
    seeds = request.seeds or (2 if request.quick else 3)
    panels = []
    for panel in PANELS[request.name](request.quick):

        def on_progress(done: int, of: int, title: str = panel.title) -> None:
            request.on_progress(title, done, of)

        series = run_jobs(panel.jobs, seeds, on_progress, request.workers)
        made: dict[str, Any] = {"title": panel.title, "across": panel.across, "metric": panel.metric, "series": series}
        made["setting"] = {k: v for k, v in panel.jobs[0].setting.__dict__.items() if k not in ("rate", "seed")}
        if panel.metric == "sdmr" and panel.across == "lambda":
            made["order"] = order_of(series)
        panels.append(made)
    return {
        "name": request.name,
        "quick": request.quick,
        "seeds": seeds,
        "panels": panels,
        "published": POINTS[request.name],
    }


def order_of(series: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns for each lambda the mean SDMR of each policy, whether TAAT >= BTS >= ATS >= ATS1 >= Ideal, and where
    `pack` stands.
    """
    rows = []
    for index, rate in enumerate(series["Ideal"]["x"]):
        mean = {label: curve["sdmr"]["mean"][index] for label, curve in series.items()}
        pairs = list(pairwise(ORDER))
        ties = [f"{a}, {b}" for a, b in pairs if mean[a] == mean[b]]
        broken = [f"{b} above {a} by {mean[b] - mean[a]:.6f}" for a, b in pairs if mean[b] > mean[a]]
        row = {
            "lambda": rate,
            "sdmr": mean,
            "order_holds": not broken,
            "broken": broken,
            "ties": ties if mean["TAAT"] >= 0.05 else [],
        }
        row["pack_above_ideal"] = round(mean["pack"] - mean["Ideal"], 6)
        row["pack_within_ats1"] = mean["pack"] <= mean["ATS1"]
        rows.append(row)
    return rows


def tables(result: dict[str, Any]) -> list[Table]:
    return [_table(panel) for panel in result["panels"]]


def _table(panel: dict[str, Any]) -> Table:
    metric, factor, digits = panel["metric"], *((1e-6, 1) if panel["metric"] == "overhead_us" else (100.0, 2))
    unit = "s" if metric == "overhead_us" else "%"
    curves = panel["series"]
    rows = []
    for index, x in enumerate(next(iter(curves.values()))["x"]):
        cells = [
            (curve[metric]["mean"][index] * factor, curve[metric]["sd"][index] * factor) for curve in curves.values()
        ]
        rows.append((f"{x:g}", *(f"{mean:.{digits}f} ±{sd:.{digits}f}" for mean, sd in cells)))
    return Table(f"{panel['title']} ({unit}, mean and spread)", (panel["across"], *curves), tuple(rows))


ATS_FIGURES = {name: Figure(make, draw_panels, _ABOUT[name], tables) for name in PANELS}
