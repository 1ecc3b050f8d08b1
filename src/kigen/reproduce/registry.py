"""The papers' figures by name, and how one is made: panels of runs, the order of the policies checked, JSON and PNG written."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from kigen.reproduce import ats
from kigen.reproduce.draw import draw_panels
from kigen.reproduce.experiment import run_jobs
from kigen.reproduce.published import POINTS

FIGURES: dict[str, Callable[[bool], list[ats.Panel]]] = {
    "ats-batch": ats.batch,
    "ats-kp": ats.kp,
    "ats-ki": ats.ki,
    "ats-overhead": ats.overhead,
    "ats-sdmr-fixed": ats.sdmr_fixed,
    "ats-sdmr-random": ats.sdmr_random,
    "ats-cpu": ats.cpu,
    "ats-sdmr-300": ats.sdmr_300,
    "ats-zipf": ats.zipf,
}
ORDER = ("TAAT", "BTS", "ATS", "ATS1", "Ideal")
Told = Callable[[str, int, int], None]  # (panel, done, of)


class ArgumentError(ValueError):
    """No figure of that name."""


def make_figure(name: str, quick: bool, told: Told, seeds: int | None = None, workers: int | None = None) -> dict[str, Any]:
    if name not in FIGURES:
        raise ArgumentError(f"no figure '{name}': write one of {', '.join(FIGURES)}")
    seeds = seeds or (2 if quick else 3)
    panels = []
    for panel in FIGURES[name](quick):
        series = run_jobs(panel.jobs, seeds, lambda done, of, title=panel.title: told(title, done, of), workers)  # type: ignore[misc]
        made: dict[str, Any] = {"title": panel.title, "across": panel.across, "metric": panel.metric, "series": series}
        made["setting"] = {k: v for k, v in panel.jobs[0].setting.__dict__.items() if k not in ("rate", "seed")}
        if panel.metric == "sdmr" and panel.across == "lambda":
            made["order"] = order_of(series)
        panels.append(made)
    return {"name": name, "quick": quick, "seeds": seeds, "panels": panels, "published": POINTS[name]}


def order_of(series: dict[str, Any]) -> list[dict[str, Any]]:
    """At each lambda: the mean SDMR of each policy, whether TAAT >= BTS >= ATS >= ATS1 >= Ideal, and where `pack` stands."""
    rows = []
    for index, rate in enumerate(series["Ideal"]["x"]):
        mean = {label: curve["sdmr"]["mean"][index] for label, curve in series.items()}
        pairs = list(pairwise(ORDER))
        ties = [f"{a}, {b}" for a, b in pairs if mean[a] == mean[b]]
        broken = [f"{b} above {a} by {mean[b] - mean[a]:.6f}" for a, b in pairs if mean[b] > mean[a]]
        row = {"lambda": rate, "sdmr": mean, "order_holds": not broken, "broken": broken, "ties": ties if mean["TAAT"] >= 0.05 else []}
        row["pack_above_ideal"] = round(mean["pack"] - mean["Ideal"], 6)
        row["pack_within_ats1"] = mean["pack"] <= mean["ATS1"]
        rows.append(row)
    return rows


def write_figure(result: dict[str, Any], out: Path, json_file: Path | None = None) -> list[Path]:
    """`<name>.png` and `<name>.json` in `out`; the JSON elsewhere if asked."""
    out.mkdir(parents=True, exist_ok=True)
    picture, data = out / f"{result['name']}.png", json_file or out / f"{result['name']}.json"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw_panels(result, picture)
    return [picture, data]
