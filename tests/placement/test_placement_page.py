"""docs/explanation/placement.md and docs/reference/nodes-file.md are true: its nodes file fits the example app, its names exist."""

from __future__ import annotations

import importlib
import re
import time
from pathlib import Path

from kigen.placement.from_plan import from_plan
from kigen.placement.nodes_file.parser import parse_nodes
from kigen.placement.solver.solve import Limits, solve
from kigen.plan import load_app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "placement.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "nodes-file.md").read_text(encoding="utf-8")


def test_the_nodes_file_of_the_page_places_the_example() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", REFERENCE, re.S)
    planned = from_plan(load_app(ROOT / "examples" / "rooms" / "rooms.cql"), parse_nodes(text))
    placed = solve(planned.problem, time.monotonic, limits=Limits(20))
    assert placed.holds, placed.notes
    assert placed.nodes["hot.filter"] == "rooms"


def test_every_name_exists() -> None:
    names = set(re.findall(r"`(kigen\.placement[.\w]+)`", PAGE))
    assert len(names) >= 5
    for name in names:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last) or importlib.import_module(name)
