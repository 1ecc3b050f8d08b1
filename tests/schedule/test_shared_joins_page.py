"""Checks the page on shared joins: its code runs, it names every policy, and its tables match the committed figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kigen_lab.simulate.shared_joins.window_sets import WINDOW_SETS

from kigen.plan import bind
from kigen.plan.explain import explain
from kigen.schedule.slices import SLICE_POLICY_NAMES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "shared-joins.md").read_text(encoding="utf-8")
FIGURES = (DOCS / "reference" / "reproductions.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(code, {})


def test_every_policy_is_named() -> None:
    assert all(f"`{name}`" in PAGE for name in SLICE_POLICY_NAMES)


def test_the_app_can_be_sliced() -> None:
    (text,) = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
    assert "slices run one after the other under --policy mqt" in explain(bind(text))


@pytest.mark.parametrize("name", WINDOW_SETS)
def test_the_tables_are_the_figures(name: str) -> None:
    result = json.loads((DOCS / "figures" / f"admandf-{name}.json").read_text(encoding="utf-8"))
    shown = "random" if name == "random" else name.upper()
    stages = [f"{100 * one['processed'][-1]:.1f} / {100 * one['dropped'][-1]:.2f}" for one in result["stages"].values()]
    assert f"| {shown} | {result['order']} | {' | '.join(stages)} |" in FIGURES
    overload = []
    for row in result["overload"]:
        fifo, mqt, salvage = (row["dropped"][label] / row["bound"] for label in ("FIFO", "MQT", "salvage"))
        overload.append(f"{fifo:.2f}, {mqt:.2f}, **{salvage:.3f}**")
    assert f"| {shown} | {' | '.join(overload)} |" in FIGURES
