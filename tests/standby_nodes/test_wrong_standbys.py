"""Standbys that cannot work are refused before anything runs, with what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from standby_nodes.pairs import ALL, SELECTION, Pair
from typer.testing import CliRunner

from kigen.cli.main import app


def refused(pair: Pair, *changes: tuple[str, str]) -> str:
    nodes = pair.app.with_name("nodes.toml")
    text = nodes.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    nodes.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(app, ["up", str(pair.app), "--nodes", str(nodes), "--state", str(pair.state)])
    assert done.exit_code == 2, done.output
    assert not pair.state.exists() or not [p for p in pair.state.iterdir() if p.is_dir()], "nothing was started"
    return " ".join(done.output.split())


@pytest.mark.parametrize(
    ("where", "change", "said"),
    [
        (
            "born",
            ('born = "up"', 'born = "mid"'),
            "stream cars is born there; a standby needs its inputs from other nodes",
        ),
        (
            "wanted",
            ('default = "down"', 'default = "mid"'),
            "are wanted there; a standby needs them wanted on another node",
        ),
        ("memory", ('standby = "lazy"', 'standby = "upstream"'), "write standby = 'lazy' and a batch"),
        ("unknown", ('standby = "lazy"', 'standby = "hot"'), "write one of lazy, active, upstream, passive"),
        (
            "copies",
            ('standby = "lazy"', 'standby = "lazy"\nperiod = "5 s"'),
            "copies are made for standby = 'passive' only",
        ),
        ("batches", ('standby = "lazy"', 'standby = "passive"\nbatch = 25'), "write period = '10 s' instead"),
        ("often", ('standby = "lazy"', 'standby = "passive"\nperiod = "1 ms"'), "write a time of 100 ms or more"),
        ("weaker", ('standby = "lazy"', 'standby = "lazy"\nrecovery = "rollback"'), "write recovery = 'precise'"),
        ("weakest", ('standby = "lazy"', 'standby = "lazy"\nrecovery = "gap"'), "Kigen recovers precisely"),
        ("untimed", ('standby = "lazy"', 'standby = "passive"\nperiod = 5'), "write a time with its unit"),
    ],
)
def test_where_there_can_be_none(where: str, change: tuple[str, str], said: str, tmp_path: Path) -> None:
    assert said in refused(Pair(tmp_path, ALL, 'standby = "lazy"', 30), change)


def figures(path: Path) -> None:
    cells = [
        {"batch": batch, "compress": "none", "overhead": {"payload": share}, "recovery_s": [seconds, seconds]}
        for batch, share, seconds in ((1, 0.6, 0.2), (50, 0.3, 0.4), (None, 0.0, 1.5))
    ]
    path.write_text(json.dumps({"bench": "standby", "cells": cells}), encoding="utf-8")


AUTO = 'standby = "lazy"\nbatch = "auto"\nrecovery_within = "100 ms"'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "kigen bench standby --json standby.json"),
        ('\nfigures = "nowhere.json"', "kigen bench standby --json nowhere.json"),
        ('\nfigures = "app.cql"', "kigen bench standby --json app.cql"),
        ('\nfigures = "standby.json"', "no batch recovers within 0.1 s"),
        ('\nfigures = "standby.json"\ncompress = "zstd"', "none of its cells has compress = 'zstd'"),
    ],
)
def test_a_batch_is_chosen_from_figures_only(more: str, said: str, tmp_path: Path) -> None:
    figures(tmp_path / "standby.json")
    assert said in refused(Pair(tmp_path, SELECTION, AUTO + more, 30))
