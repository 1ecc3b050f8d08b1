"""Checks the page on scheduling: its code runs, and it names every policy."""

from __future__ import annotations

import re
from pathlib import Path

from kigen.schedule import POLICY_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "scheduling.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(code, {})


def test_every_policy_is_named() -> None:
    assert all(f"`{name}`" in PAGE for name in POLICY_NAMES)
