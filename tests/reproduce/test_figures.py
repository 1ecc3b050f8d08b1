"""Checks that figures are made and written, and that they say where order and bounds hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kigen_lab.reproduce import FIGURES, make_figure, write_figure
from kigen_lab.reproduce.ats import experiments
from kigen_lab.reproduce.ats.figures import PANELS, order_of
from kigen_lab.reproduce.ats.published import POINTS
from kigen_lab.reproduce.registry import ArgumentError
from typer.testing import CliRunner

from kigen.cli.main import app


def tiny(quick: bool) -> list[experiments.Panel]:
    return [
        replace(
            panel,
            jobs=tuple(
                replace(job, setting=replace(job.setting, queries=8, tuples=40, scale=600.0)) for job in panel.jobs[:2]
            ),
        )
        for panel in experiments.sdmr_random(quick)
    ]


def test_a_figure_is_picture_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PANELS, "ats-sdmr-random", tiny)
    seen: list[tuple[int, int]] = []
    result = make_figure("ats-sdmr-random", True, lambda _, done, of: seen.append((done, of)), workers=1)
    picture, data = write_figure(result, tmp_path)
    assert seen[0] == (0, 4)
    assert seen[-1] == (4, 4)
    assert picture.read_bytes().startswith(b"\x89PNG")
    read = json.loads(data.read_text())
    panel = read["panels"][0]
    assert set(panel["series"]) == {v.label for v in experiments.POLICIES}
    assert [row["lambda"] for row in panel["order"]] == [0.3, 0.4]
    assert len(panel["series"]["ATS"]["sdmr"]["seeds"][0]) == 2
    assert read["published"] == POINTS["ats-sdmr-random"]
    table = FIGURES["ats-sdmr-random"].tables(read)[0]
    assert table.columns == ("lambda", *panel["series"])
    assert [row[0] for row in table.rows] == ["0.3", "0.4"]


def test_the_order_is_judged_by_means() -> None:
    def curve(mean: float) -> dict[str, object]:
        return {"x": [0.4], "sdmr": {"mean": [mean]}}

    means = {"TAAT": 0.4, "BTS": 0.1, "ATS": 0.02, "ATS1": 0.03, "Ideal": 0.0, "pack": 0.0}
    row = order_of({label: curve(mean) for label, mean in means.items()})[0]
    assert not row["order_holds"]
    assert row["broken"] == ["ATS1 above ATS by 0.010000"]
    assert row["pack_above_ideal"] == 0.0


@pytest.mark.parametrize("name", PANELS)
def test_every_figure_has_jobs_and_published_points(name: str) -> None:
    assert name in POINTS
    for quick in (True, False):
        assert all(panel.jobs for panel in PANELS[name](quick))


def test_an_unknown_figure_is_refused() -> None:
    with pytest.raises(ArgumentError, match="ats-zipf"):
        make_figure("ats-none", True, lambda *_: None)


def test_all_figures_are_listed() -> None:
    for arguments in (["reproduce"], ["reproduce", "--help"]):
        shown = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, arguments)
        assert shown.exit_code == 0
        for name, figure in FIGURES.items():
            assert name in shown.output
            assert figure.about in shown.output
