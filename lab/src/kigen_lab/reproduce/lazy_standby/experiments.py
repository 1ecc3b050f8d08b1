"""Runs the experiment of the paper on lazy standby in virtual time: every batch, codec and kind of standby over the
same trials.

A cell is one point of a curve: `trials` runs that differ only in their seed. All cells share the seeds, so they differ
only in the standby. Invariant: a result depends on settings and seeds, never on how the work was spread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np

from kigen.replicas.standby_kind import ACTIVE, LAZY, PASSIVE, UPSTREAM, standby_kind
from kigen_lab.simulate.standby.model import StandbySetting
from kigen_lab.simulate.standby.trial import simulate_standby

BATCHES = (1, 2, 10, 15, 20, 25, 30, 35, 40, 45, 50)
QUICK_BATCHES = (1, 10, 25, 50)
CODECS = ("none", "zlib", "zstd")
COPY_US = 1e6  # between copies of the passive standby
METRICS = (
    "overhead",
    "overhead_of_all",
    "overhead_wire",
    "detection_us",
    "reconnection_us",
    "data_recovery_us",
    "recovery_us",
    "secondary_work",
    "kept_most",
)
FIRST_SEED = 100


@dataclass(frozen=True)
class Cell:
    """A point of the figure: its sweep, its codec, its label on the axis, and the setting of its trials."""

    sweep: str  # selection, window, regular acks
    codec: str
    label: str  # AS, a batch, UB, passive
    setting: StandbySetting


def cells(quick: bool) -> list[Cell]:
    kill_us = 8e6 if quick else 30e6
    sweeps: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        ("selection", CODECS, {}),
        ("window", ("none", "zlib"), {"window_us": 200_000.0}),
        ("regular acks", ("none",), {"regular_acks": True}),
    ]
    found = []
    for sweep, codecs, changes in sweeps:
        for codec in codecs:
            for label, word, batch in _points(quick, with_upstream=sweep != "window"):
                kind = standby_kind(word, batch, codec, skips_trimmed=sweep != "window", period_us=COPY_US)
                found.append(Cell(sweep, codec, label, StandbySetting(kind, kill_us=kill_us, **changes)))
    return found


def _points(quick: bool, with_upstream: bool) -> list[tuple[str, str, int | None]]:
    """Lists labels, kinds and batches. Upstream backup is refused for a node with memory, as on real nodes."""
    lazy = [(str(batch), LAZY, batch) for batch in (QUICK_BATCHES if quick else BATCHES)]
    upstream = [("UB", UPSTREAM, None)] if with_upstream else []
    return [("AS", ACTIVE, None), *lazy, *upstream, ("passive", PASSIVE, None)]


def run_cell(cell: Cell, trials: int) -> dict[str, Any]:
    """Returns mean and standard deviation of each metric, and the single values of the two that matter."""
    outcomes = [simulate_standby(replace(cell.setting, seed=seed)) for seed in range(FIRST_SEED, FIRST_SEED + trials)]
    found: dict[str, Any] = {"label": cell.label, "exact": all(one.exact for one in outcomes)}
    for metric in METRICS:
        values = [float(getattr(one, metric)) for one in outcomes]
        found[metric] = {"mean": round(float(np.mean(values)), 6), "sd": round(float(np.std(values)), 6)}
    found["trials"] = {
        metric: [round(float(getattr(one, metric)), 6) for one in outcomes] for metric in ("overhead", "recovery_us")
    }
    return found


def run_cells(
    quick: bool, trials: int, told: Callable[[int, int], None], workers: int | None = None
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Returns sweep -> codec -> points, in the order of the axis."""
    jobs = cells(quick)
    told(0, len(jobs))
    results: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(min(len(jobs), workers or os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        fewer = max(2, trials // 3)  # for the sweeps that the paper does not have
        waiting = {
            pool.submit(run_cell, job, trials if job.sweep == "selection" else fewer): index
            for index, job in enumerate(jobs)
        }
        for done, future in enumerate(as_completed(waiting), 1):
            results[waiting[future]] = future.result()
            told(done, len(jobs))
    sweeps: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for index, job in enumerate(jobs):
        sweeps.setdefault(job.sweep, {}).setdefault(job.codec, []).append(results[index])
    return sweeps


def reached(sweeps: dict[str, dict[str, list[dict[str, Any]]]]) -> dict[str, dict[str, Any]]:
    """Returns each result of the paper, whether it came out, and the numbers."""
    curves = sweeps["selection"]
    mean = {
        codec: {point["label"]: {m: point[m]["mean"] for m in METRICS} for point in points}
        for codec, points in curves.items()
    }
    lazy = [label for label in mean["none"] if label.isdigit()]
    found: dict[str, dict[str, Any]] = {}

    def say(what: str, held: bool, **numbers: Any) -> None:
        found[what] = {"reached": bool(held), **numbers}

    for codec in CODECS:
        of = mean[codec]
        overheads, times = [of[b]["overhead"] for b in lazy], [of[b]["recovery_us"] for b in lazy]
        say(f"{codec}: overhead falls with the batch", all(a >= b for a, b in pairwise(overheads)), values=overheads)
        say(f"{codec}: recovery grows with the batch", all(a <= b for a, b in pairwise(times)), values_us=times)
        say(f"{codec}: between AS and UB", all(of["UB"]["overhead"] <= v <= of["AS"]["overhead"] for v in overheads))
        equal = all(of["1"][m] == of["AS"][m] for m in ("overhead", "recovery_us"))
        say(f"{codec}: batch 1 is AS", equal)
    wide = [b for b in lazy if int(b) >= 10]
    ratios = {
        b: round(mean["zlib"][b]["overhead"] / mean["none"][b]["overhead"], 4)
        for b in wide
        if mean["none"][b]["overhead"]
    }
    say(
        "zlib at 45-60 % of none from batch 10 on",
        all(0.45 <= ratio <= 0.6 for ratio in ratios.values()),
        ratios=ratios,
    )
    changes = [
        abs(mean[c][b]["recovery_us"] / mean["none"][b]["recovery_us"] - 1) for c in ("zlib", "zstd") for b in lazy
    ]
    say("recovery within 2 % of that without a codec", max(changes) <= 0.02, greatest_change=round(max(changes), 6))
    say(
        "zstd below zlib from batch 10 on", all(mean["zstd"][b]["overhead"] < mean["zlib"][b]["overhead"] for b in wide)
    )
    say(
        "batch 1 compressed not above none",
        all(mean[c]["1"]["overhead"] <= mean["none"]["1"]["overhead"] for c in ("zlib", "zstd")),
    )
    say(
        "every trial's output exact",
        all(point["exact"] for sweep in sweeps.values() for points in sweep.values() for point in points),
    )
    return found
