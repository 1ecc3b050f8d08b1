"""The papers' figures by name, gathered from their families; how one is made, and written as JSON and PNG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kigen_lab.reproduce.admandf.figures import ADMANDF_FIGURES
from kigen_lab.reproduce.ats.figures import ATS_FIGURES
from kigen_lab.reproduce.figure import Figure, Request, Told
from kigen_lab.reproduce.lazy_standby.figures import LAZY_STANDBY_FIGURES
from kigen_lab.reproduce.placement.figures import PLACEMENT_FIGURES

FIGURES: dict[str, Figure] = {**ATS_FIGURES, **PLACEMENT_FIGURES, **ADMANDF_FIGURES, **LAZY_STANDBY_FIGURES}


class ArgumentError(ValueError):
    """No figure of that name."""


def make_figure(
    name: str, quick: bool, told: Told, seeds: int | None = None, workers: int | None = None
) -> dict[str, Any]:
    if name not in FIGURES:
        raise ArgumentError(f"no figure '{name}': write one of {', '.join(FIGURES)}")
    return FIGURES[name].make(Request(name, quick, told, seeds, workers))


def write_figure(result: dict[str, Any], out: Path, json_file: Path | None = None) -> list[Path]:
    """`<name>.png` and `<name>.json` in `out`; the JSON elsewhere if asked."""
    out.mkdir(parents=True, exist_ok=True)
    picture, data = out / f"{result['name']}.png", json_file or out / f"{result['name']}.json"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    FIGURES[result["name"]].draw(result, picture)
    return [picture, data]
