"""The worked examples of the paper on placement, to the millisecond, and the pictures of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kigen.reproduce import FIGURES, make_figure, write_figure


def made(name: str, out: Path) -> dict[str, Any]:
    """The figure, by way of its files."""
    picture, data = write_figure(make_figure(name, True, lambda *_: None, seeds=2, workers=1), out)
    assert picture.read_bytes().startswith(b"\x89PNG")
    result: dict[str, Any] = json.loads(data.read_text())
    assert FIGURES[name].tables(result)
    return result


def test_figure_6(tmp_path: Path) -> None:
    edf, fifo = made("edf-example", tmp_path)["cases"]
    assert edf["agrees"]
    assert fifo["agrees"]
    ends = {(i["tuple"], i["task"]): (i["created_ms"], i["deadline_ms"], i["end_ms"]) for i in edf["instances"]}
    assert ends == {("p1", "T1"): (1, 3, 3), ("p2", "T1"): (3, 5, 5), ("p1", "T2"): (2, 7, 6), ("p2", "T2"): (4, 9, 7)}
    assert [(i["tuple"], i["task"]) for i in fifo["instances"] if i["missed"]] == [("p2", "T1")]
