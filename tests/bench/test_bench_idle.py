"""Checks `kigen bench idle` without Spark: its apps, which process counts as what, and its table."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
from kigen_lab.bench.idle.benchmark import APPS
from kigen_lab.bench.idle.process_times import ProcessTime, all_processes, below, used_percent
from kigen_lab.bench.idle.report import idle_table
from rich.console import Console

from kigen.plan import bind


@pytest.mark.parametrize("app", sorted(APPS))
def test_each_app_is_valid(app: str) -> None:
    assert [query.name for query in bind(APPS[app]).queries] == ["means"]


def test_processes_count_by_what_they_are() -> None:
    before = {
        1: ProcessTime(0, "init", "init", 50.0),
        10: ProcessTime(1, "python", "kigen run app.cql", 3.0),
        11: ProcessTime(10, "java", "java -cp ...", 20.0),
        12: ProcessTime(11, "python", "python -m pyspark.sql.streaming.python_streaming_source_runner", 1.0),
        13: ProcessTime(11, "python", "python -m kigen.spark.session.daemon pyspark.worker", 2.0),
        20: ProcessTime(1, "python", "another", 7.0),
    }
    after = {pid: ProcessTime(p.parent, p.name, p.arguments, p.cpu_s + 0.1) for pid, p in before.items()}
    after[14] = ProcessTime(13, "python", "python -m kigen.spark.session.daemon pyspark.worker", 0.3)
    assert below(after, 10) == {10: "command", 11: "jvm", 12: "reader", 13: "workers", 14: "workers"}
    used = used_percent(before, after, 10, 10.0)
    assert used == pytest.approx({"command": 1.0, "jvm": 1.0, "reader": 1.0, "workers": 4.0})


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_the_time_of_this_process_is_counted() -> None:
    before, until = all_processes(), time.process_time() + 0.2
    while time.process_time() < until:
        pass
    used = used_percent(before, all_processes(), os.getpid(), 1.0)
    assert used["command"] >= 10.0


def test_the_table_says_which_app_uses_too_much() -> None:
    cell = {"command": 1.0, "jvm": 0.5, "reader": 0.25, "workers": 0.0}
    result = {
        "machine": {"cores": 2, "processor": "p", "date": "today", "load_before": 0.1},
        "settings": {"seconds": 60.0, "settle_s": 30.0},
        "cells": [{"app": "http", **cell, "all": 1.75}, {"app": "followed", **cell, "all": 3.25}],
        "target_percent": 3.0,
    }
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(idle_table(result))
    rows = [line.split() for line in console.export_text().splitlines() if line.split()[:1] in (["http"], ["followed"])]
    assert [(row[0], row[-2], row[-1]) for row in rows] == [("http", "1.75", "yes"), ("followed", "3.25", "NO")]
