"""The page on standby is true: its examples run, every kind of standby is named, every call of the diagram exists."""

from __future__ import annotations

import re
from pathlib import Path

import kigen.replicas
from kigen.links.flight.protocol import ACTIONS
from kigen.replicas.standby_kind import ACTIVE, LAZY, PASSIVE, UPSTREAM

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "standby.md").read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    found = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(found) == 2
    for code in found:
        exec(code, {})


def test_every_kind_is_named() -> None:
    assert all(f"`{kind}`" in PAGE for kind in (LAZY, ACTIVE, UPSTREAM, PASSIVE))


def test_every_call_of_the_diagram_exists() -> None:
    (diagram,) = re.findall(r"```mermaid\n(.*?)```", PAGE, re.S)
    called = set(re.findall(r"\w->>\w: (\w+)", diagram))
    assert called
    assert called <= {*ACTIONS, "read"}


def test_every_part_of_the_table_exists() -> None:
    table = PAGE[PAGE.index("| file | what it decides |") :].split("\n\n")[0]
    parts = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert len(parts) == 6
    assert all((Path(kigen.replicas.__file__).parent / f"{part}.py").exists() for part in parts)
