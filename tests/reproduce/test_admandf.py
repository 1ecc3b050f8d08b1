"""Checks the figures of shared joins: how they are made, drawn and judged."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.reproduce import FIGURES, make_figure, write_figure
from kigen_lab.reproduce.admandf import experiments
from kigen_lab.reproduce.admandf.figures import reached
from kigen_lab.simulate.shared_joins.join_simulation import JoinSetting


def test_a_figure_is_picture_data_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = experiments.paper_setting

    def tiny(name: str, quick: bool) -> JoinSetting:
        return replace(paper(name, quick), buffer=100, stages=((10.0, 7.0), (10.0, 1.0), (10.0, 7.0), (10.0, 1.0)))

    monkeypatch.setattr(experiments, "paper_setting", tiny)
    seen: list[tuple[int, int]] = []
    result = make_figure("admandf-p4", True, lambda _, done, of: seen.append((done, of)), workers=1)
    picture, data = write_figure(result, tmp_path)
    assert seen == [(n, 26) for n in range(27)]
    assert picture.read_bytes().startswith(b"\x89PNG")
    read = json.loads(data.read_text())
    assert read["order"] == read["published"]["order"] == "1-5,6-10"
    assert set(read["stages"]) == {curve.label for curve in experiments.CURVES}
    assert all(len(one["processed"]) == len(one["dropped"]) == 4 for one in read["stages"].values())
    assert [(row["arrivals"], row["times"]) for row in read["overload"]] == [
        (kind, t) for kind in ("stages", "even") for t in (1.5, 2.0)
    ]
    for row in read["overload"]:
        assert all(row["bound"] <= dropped for dropped in row["dropped"].values())
    assert read["reached"]["order as published"]
    by_stage, overload, figures = FIGURES["admandf-p4"].tables(read)
    assert [row[0] for row in by_stage.rows] == list(read["stages"])
    assert [row[0] for row in overload.rows] == ["1.5 x, stages", "2 x, stages", "1.5 x, even", "2 x, even"]
    assert len(figures.rows) == max(1, sum(not held for held in read["reached"].values()))


def good() -> dict[str, Any]:
    def one(processed: float, dropped: int) -> dict[str, Any]:
        return {"processed": [processed], "dropped_queries": dropped}

    stages = {"MQT": one(0.85, 5), "FIFO": one(0.7, 0), "adMandF": one(0.83, 0), "salvage": one(0.7, 0)}
    row = {"arrivals": "even", "times": 2.0, "bound": 100.0, "dropped": {"MQT": 150, "FIFO": 120, "salvage": 109}}
    return {"order": "1-5,6-10", "order_published": "1-5,6-10", "stages": stages, "overload": [row]}


def test_what_is_reached() -> None:
    assert all(reached("p4", good()).values())
    assert not reached("p3", good())["MQT drops as published"]


@pytest.mark.parametrize(
    ("where", "value", "what"),
    [
        (("stages", "adMandF", "dropped_queries"), 1, "adMandF drops nothing"),
        (("stages", "adMandF", "processed"), [0.69], "adMandF processes at least as FIFO"),
        (("stages", "adMandF", "processed"), [0.81], "adMandF within 3 points of MQT"),
        (("stages", "salvage", "dropped_queries"), 1, "salvage drops nothing where FIFO does not"),
        (("overload", 0, "dropped", "salvage"), 111, "salvage at most 1.1 x the bound, 2 x, even"),
        (("overload", 0, "dropped", "FIFO"), 108, "salvage at most the lesser of FIFO and MQT, 2 x, even"),
        (("order",), "1-10", "order as published"),
    ],
)
def test_what_is_not_reached_is_said(where: tuple[Any, ...], value: Any, what: str) -> None:
    result = copy.deepcopy(good())
    inner = result
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    assert not reached("p4", result)[what]
