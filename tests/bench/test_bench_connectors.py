"""Checks `kigen bench connectors` without servers: turns, what is missing, medians, the table and the picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from kigen_lab.bench.connectors import benchmark, libraries
from kigen_lab.bench.connectors.benchmark import ConnectorBench, ConnectorSettings, cell_of
from kigen_lab.bench.connectors.parts import HTTP, JSON, LATENCY, MQTT, PARTS, TARGETS, WHAT
from kigen_lab.bench.connectors.picture import bars_of, draw_connectors
from kigen_lab.bench.connectors.report import connectors_table
from kigen_lab.servers.errors import ServerMissing
from rich.console import Console

_MACHINE = {"cores": 2, "date": "today", "load_before": 0.1}


def test_contestants_take_turns_and_each_turn_begins_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(benchmark, "require_libraries", lambda part: None)
    monkeypatch.setattr(ConnectorBench, "_kigen", lambda self, form, folder: {"per_s": 100.0})
    monkeypatch.setattr(ConnectorBench, "_bytewax", lambda self, processes, folder: {"per_s": 50.0 * processes})
    bench = ConnectorBench(ConnectorSettings(parts=(JSON,), turns=2, out=tmp_path), said.append)
    steps: list[None] = []
    result = bench.run(lambda: steps.append(None))
    assert len(steps) == bench.steps == 6
    assert [text.split(": ")[1].split(", turn")[0] for text in said] == [
        "kigen",
        "bytewax, 1 process",
        "bytewax, 2 processes",
        "bytewax, 1 process",
        "bytewax, 2 processes",
        "kigen",
    ]
    assert {cell["contestant"]: len(cell["turns"]) for cell in result["cells"]} == {
        "kigen": 2,
        "bytewax, 1 process": 2,
        "bytewax, 2 processes": 2,
    }


def test_what_cannot_be_measured_is_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_server(self: ConnectorBench, folder: Path) -> dict[str, float]:
        raise ServerMissing("mosquitto is missing")

    absent = {"bytewax", "paho"}
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name in absent else object())
    monkeypatch.setattr(ConnectorBench, "_kigen", lambda self, form, folder: {"per_s": 1.0})
    monkeypatch.setattr(ConnectorBench, "_http", no_server)
    settings = ConnectorSettings(parts=(HTTP, MQTT, JSON), turns=2, out=tmp_path)
    result = ConnectorBench(settings, lambda _: None).run(lambda: None)
    assert result["missing"] == {
        HTTP: "mosquitto is missing",
        MQTT: "not installed: paho; run: pip install 'kigen-lab[connectors]'",
        "bytewax": "not installed: bytewax; run: pip install 'kigen-lab[connectors]'",
    }
    assert [(cell["part"], len(cell["turns"])) for cell in result["cells"]] == [(JSON, 2)]


def _result() -> dict[str, Any]:
    cells = []
    for part in PARTS:
        good = {target.figure: target.value for target in TARGETS[part]}
        bad = {target.figure: target.value * (0.5 if target.least else 2.0) for target in TARGETS[part]}
        cells.append(cell_of(part, "kigen", [good, good, bad] if part != LATENCY else [bad]))
    cells.append(cell_of(JSON, "bytewax, 2 processes", [{"per_s": 40_000.0}]))
    return {"cells": cells, "machine": _MACHINE, "settings": {"turns": 3}, "missing": {"x": "because"}}


def test_the_table_says_what_was_reached() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(connectors_table(_result()))
    shown = console.export_text()
    for text in (*WHAT.values(), "read_committed p99", "Kigen over the best of bytewax (bytewax, 2 processes): 2.00"):
        assert text in shown
    assert "not measured: x: because" in shown
    assert shown.count("yes") == 5, "medians of the rates"
    assert shown.count("NO") == 4, "the latencies"


def test_the_picture_shows_shares_of_what_is_to_be_reached(tmp_path: Path) -> None:
    result = _result()
    shares = {label: share for label, share, _, _ in bars_of(result["cells"])}
    assert shares[WHAT[JSON]] == 1.0
    assert shares[f"{WHAT[LATENCY]}, read_committed p50"] == 0.5
    assert shares[f"{WHAT[JSON]} (bytewax, 2 processes)"] == 0.5
    draw_connectors(result, tmp_path / "connectors.png")
    assert (tmp_path / "connectors.png").stat().st_size > 10_000
