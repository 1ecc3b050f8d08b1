"""Checks `kigen bench recovery` without Spark: how it reads the output, its medians and its table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from kigen_lab.bench.recovery.benchmark import cell_of
from kigen_lab.bench.recovery.live_command import APP, last_line_us
from kigen_lab.bench.recovery.report import recovery_table
from rich.console import Console

from kigen.plan import bind


@pytest.mark.parametrize(
    ("tail", "us"),
    [
        (b"", 0),
        (b"id,speed,_at\n", 0),
        (b"id,speed,_at\n1,99.5,1970-01-01T00:00:02.000001Z\n", 2_000_001),
        (b".5,1970-01-01T00:00:02.000001Z\n2,99.1,1970-01-01T00:00:03.5", 2_000_001),  # the last line is half written
        (b"01Z\n", 0),
    ],
)
def test_the_last_whole_line_says_how_far_results_have_come(tail: bytes, us: int) -> None:
    assert last_line_us(tail) == us


def test_the_app_is_a_live_one(tmp_path: Path) -> None:
    app = bind(APP.format(rate=100), str(tmp_path))
    assert [query.name for query in app.queries] == ["fast", "means"]


def test_the_price_of_a_replay_is_beyond_a_start_without_one() -> None:
    trial = {"first_s": 9.0, "after_term_s": 8.0, "caught_up_s": 12.0, "term_s": 1.0, "term_code": 0}
    cell = cell_of(10_000, [{**trial, "after_kill_s": s} for s in (9.5, 11.25, 10.0)])
    assert (cell["beyond_start_s"], cell["medians"]["after_kill_s"], cell["term_codes"]) == (2.0, 10.0, [0])
    result = {
        "machine": {"cores": 2, "date": "today"},
        "settings": {"epoch_s": 30.0, "late_s": 27.0},
        "cells": [cell],
    }
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(recovery_table(result))
    shown = console.export_text()
    assert "10,000" in shown
    assert "2.00" in shown
