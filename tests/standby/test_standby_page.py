"""The page on standby is true: its examples run, every kind of standby and message of the diagram exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from kigen_lab.simulate.standby.machine.messages import KINDS
from kigen_lab.simulate.standby.machine.topology import Mode, Recovery

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "standby.md").read_text(encoding="utf-8")


def test_the_examples_run() -> None:
    found = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(found) == 2
    for code in found:
        exec(code, {})


def test_every_kind_is_named() -> None:
    assert all(f"`{mode}`" in PAGE for mode in get_args(Mode))
    assert all(f'"{recovery}"' in PAGE for recovery in get_args(Recovery))


def test_every_message_of_the_diagram_exists() -> None:
    (diagram,) = re.findall(r"```mermaid\n(.*?)```", PAGE, re.S)
    said = set(re.findall(r"->>\w: (\w+)", diagram))
    assert said
    assert said <= set(KINDS)
