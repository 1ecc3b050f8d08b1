"""Checks `kigen bench standby` without nodes: what is computed from their reports, and how it is shown."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.standby.benchmark import QUICK, RESTART, StandbySettings, contestant, figures, settings_of, spent
from kigen_lab.bench.standby.pipeline import Snapshot, tree_cpu_s
from kigen_lab.bench.standby.report import draw_standby, standby_tables
from rich.console import Console


def about(role: str, sent: dict[str, int], wire: int) -> dict[str, Any]:
    tallies = {
        name: {"tuples": size // 10, "payload_bytes": size, "plain_bytes": size * 2, "messages": 1}
        for name, size in sent.items()
    }
    return {
        "role": role,
        "sent": tallies,
        "from": {"s": {"wire_bytes": wire, "rows": 1, "switched": []}} if wire else {},
    }


def at(second: float, factor: int, leader: str = "mid", other: str = "mid.1") -> Snapshot:
    reports = {
        "up": about("alone", {f"cars/{leader}": 1000 * factor, f"cars/{other}": 300 * factor, "cars/": 7}, 0),
        leader: about("leads", {"fast/down": 500 * factor}, 1100 * factor),
        other: about("stands by", {"fast/x": 9}, 400 * factor),
        "down": about("alone", {}, 600 * factor),
    }
    return Snapshot(second, reports, {"up": 1.0 * factor, leader: 2.0 * factor, other: 0.5 * factor, "down": 1.0})


@pytest.mark.parametrize(("leader", "other"), [("mid", "mid.1"), ("mid.1", "mid")])
def test_bytes_tuples_and_cpu_between_two_moments(leader: str, other: str) -> None:
    found = spent(at(10, 1, leader, other), at(30, 3, leader, other))
    assert found["seconds"] == 20
    assert found["tuples"] == {"leader": 200, "standby": 60}
    assert found["primary_bytes"] == {"payload": 3000, "wire": 3400}
    assert found["backup_bytes"] == {"payload": 600, "wire": 800}
    assert found["overhead"] == {"payload": 0.2, "wire": 0.2353}
    assert found["backup_packed"] == 0.5
    assert found["cpu_us_a_tuple"] == {"up": 10_000, "leader": 20_000, "standby": 5_000, "down": 0}


def test_copies_count_as_bytes_to_the_other() -> None:
    def with_copies(snapshot: Snapshot, sent: int, wire: int) -> Snapshot:
        other = {**about("copies", {}, 0), "copy": {"sent_bytes": sent, "wire_bytes": wire}}
        return Snapshot(snapshot.at_s, {**snapshot.reports, "mid.1": other}, snapshot.cpu_s)

    found = spent(with_copies(at(10, 1), 500, 900), with_copies(at(30, 3), 2000, 3000))
    assert found["backup_bytes"] == {"payload": 600 + 1500, "wire": 2100}


def cell(batch: int | None, codec: str, recovery_s: float) -> dict[str, Any]:
    one = contestant(batch, codec)
    times = {
        "detection_s": [0.1],
        "reconnection_s": [0.05],
        "data_s": [recovery_s - 0.05],
        "recovery_s": [recovery_s],
        "outage_s": [recovery_s + 0.1],
    }
    return {
        "standby": one.standby,
        "batch": batch,
        "compress": codec,
        "label": one.label,
        "load": 1.0,
        "under_way_s": None if batch is None else 0.25,
        **spent(at(0, 1), at(9, 2)),
        **times,
    }


def restart(outage_s: float) -> dict[str, Any]:
    return {
        "standby": None,
        "label": RESTART.label,
        "load": 1.0,
        "outage_s": [outage_s],
        "cpu_us_a_tuple": {"up": 5, "leader": 10_000, "down": 5},
    }


def test_a_fifth_of_plain_restart_is_asked_of_small_batches_only() -> None:
    cells = [cell(1, "none", 0.5), cell(25, "zlib", 1.0), cell(50, "none", 3.0), cell(None, "none", 4.0)]
    assert figures(cells, restart(5.0))["fifth_reached"]
    assert not figures(cells, restart(4.9))["fifth_reached"]
    assert figures(cells, restart(5.0))["recovery_by_restart"]["50, none"] == 0.6
    assert figures(cells, restart(5.0))["leader_cpu_by_alone"]["AS = 1, none"] == 2.0
    assert figures(cells, restart(5.0))["data_by_under_way"] == {"AS = 1, none": 1.8, "25, zlib": 3.8, "50, none": 11.8}


def test_what_is_run() -> None:
    labels = [(one.label, one.compress) for one in QUICK.contestants]
    assert labels[0] == ("restart", "none")
    assert ("UB", "none") in labels
    assert ("20", "zlib") in labels
    whole = [(one.label, one.compress) for one in StandbySettings().contestants]
    assert len(whole) == len(set(whole)) == 1 + 12 + 10 + 10 + 2
    assert ("passive", "zlib") in whole
    few = settings_of(True, codecs=("none",), batches=(10, 25))
    assert [(one.label, one.compress) for one in few.contestants] == [
        ("restart", "none"),
        ("10", "none"),
        ("25", "none"),
        ("passive", "none"),
    ]
    assert "UB" not in [one.label for one in StandbySettings(query="window").contestants]


def test_table_and_picture(tmp_path: Path) -> None:
    copies = {**cell(None, "none", 3.0), "standby": "passive", "label": "passive"}
    cells = [cell(1, "none", 0.5), cell(10, "none", 0.6), cell(10, "zlib", 0.6), cell(None, "none", 4.0), copies]
    settings = {"query": "selection", "rate": 100.0, "trials": 1, "silence_s": 1.0}
    plain = restart(8.0)
    result = {
        "machine": describe_machine(),
        "settings": settings,
        "complete": True,
        "restart": plain,
        "cells": cells,
        "figures": figures(cells, plain),
    }
    json.dumps(result)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(standby_tables(result))
    text = console.export_text()
    assert "AS = 1" in text
    assert "at most 1/5 of restart from checkpoint (8.0 s): reached" in text
    draw_standby(result, tmp_path / "standby.png")
    assert (tmp_path / "standby.png").stat().st_size > 10_000


def test_cpu_of_a_whole_tree() -> None:
    """A grandchild process burns CPU, as Spark's workers do."""
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nimport sys; sys.stdin.read()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"done\n"
        assert tree_cpu_s(child.pid) >= 0.28
        child.communicate()
