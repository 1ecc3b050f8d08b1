"""docs/reference/queues.md is true: its program runs, and every name it gives to a call is there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from kigen.links import Link, LinkWriter
from kigen.links.flight.protocol import ACTIONS, READ
from kigen.queue import Queue

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "queues.md").read_text(encoding="utf-8")


def test_the_program_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "queues.md", "exec"), {})


def test_operations_and_their_fields_exist() -> None:
    table = PAGE.partition("## Operations")[2].partition("`min_tuples`:")[0]
    calls = re.findall(r"`(\w+)\(([\w, ]*)\)", table)
    assert len(calls) == 10
    for name, arguments in calls:
        given = set(filter(None, arguments.split(", ")))
        has = set(inspect.signature(getattr(Queue, name)).parameters) | {"us"}
        assert given <= has, name
        assert name in ACTIONS or name in ("append", "read"), name
    assert set(inspect.signature(Queue.read).parameters) - {"self"} <= set(READ)
    assert {"append", "flush", "progress"} <= set(dir(LinkWriter))
    assert {"read", "follow", "ack", "skip"} <= set(dir(Link))
