"""Lists all figures by name, makes one, and writes it as JSON and PNG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kigen_lab.reproduce.admandf.figures import ADMANDF_FIGURES
from kigen_lab.reproduce.ats.figures import ATS_FIGURES
from kigen_lab.reproduce.figure import Figure, OnProgress, Request
from kigen_lab.reproduce.lazy_standby.figures import LAZY_STANDBY_FIGURES
from kigen_lab.reproduce.placement.figures import PLACEMENT_FIGURES

FIGURES: dict[str, Figure] = {**ATS_FIGURES, **PLACEMENT_FIGURES, **ADMANDF_FIGURES, **LAZY_STANDBY_FIGURES}


class ArgumentError(ValueError):
    """There is no figure of that name."""


def make_figure(
    name: str, quick: bool, on_progress: OnProgress, seeds: int | None = None, workers: int | None = None
) -> dict[str, Any]:
    if name not in FIGURES:
        raise ArgumentError(f"no figure '{name}': write one of {', '.join(FIGURES)}")
    return FIGURES[name].make(Request(name, quick, on_progress, seeds, workers))


def write_figure(result: dict[str, Any], out: Path, json_file: Path | None = None) -> list[Path]:
    """Writes `<name>.png` and `<name>.json` to `out`, or the JSON to `json_file`."""
    out.mkdir(parents=True, exist_ok=True)
    picture, data = out / f"{result['name']}.png", json_file or out / f"{result['name']}.json"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    FIGURES[result["name"]].draw(result, picture)
    return [picture, data]
