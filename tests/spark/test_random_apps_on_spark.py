"""Random apps through Spark, from csv files to csv files, with both methods: 20 seeds of the older constructs and 30 of
the newer ones, in the soak twice as many, in a few apps, in one session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from oracle.compare import judge, line_difference, lines_of_csv, whole_app
from oracle.evaluate import Oracle
from oracle.generate import generate
from oracle.join_texts import generate_joins
from oracle.newer_texts import generate_newer
from oracle.pack import pack
from oracle.render_cql import write_app
from oracle.shapes import App
from oracle.sql_apps import generate_sql
from seeds import seeds

from kigen.engine import Engine

PACKED = 20  # starting a run takes seconds, so many apps share one
FIRST = 10_000
ROWS_PER_BATCH = {"dt": 58, "nt": 150}  # a few rows of each stream; the cuts differ, too
NEWER = {generate_sql: 20_000, generate_joins: 21_000, generate_newer: 22_000}  # the first seed of each kind


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", seeds(PACKED, 2 * PACKED, first=FIRST)[::PACKED])
def test_random_apps_through_spark(engine: Engine, tmp_path: Path, first: int) -> None:
    _judge_on_spark(engine, tmp_path, [generate(seed) for seed in range(first, first + PACKED)], ROWS_PER_BATCH)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", seeds(1, 2))
def test_random_apps_of_newer_constructs_through_spark(engine: Engine, tmp_path: Path, part: int) -> None:
    each = PACKED // 2
    apps = [
        draw(seed) for draw, first in NEWER.items() for seed in range(first + part * each, first + (part + 1) * each)
    ]
    _judge_on_spark(engine, tmp_path, apps, {"dt": 100, "nt": 250})


def _judge_on_spark(engine: Engine, tmp_path: Path, apps: Sequence[App], rows_per_batch: dict[str, int]) -> None:
    app = pack(apps)
    path = write_app(app, tmp_path / "app")
    for mode, rows in rows_per_batch.items():
        engine.run(str(path), drain=True, output=str(tmp_path / mode), lifetime=mode, batch_rows=rows)
    oracle = Oracle(app)
    found = []
    for q in app.queries:
        direct, negative = (lines_of_csv(tmp_path / mode / f"{q.name}.csv", q) for mode in rows_per_batch)
        found += [
            report
            for report in (judge(oracle, q, direct), judge(oracle, q, negative), line_difference(direct, negative))
            if report
        ]
    assert not found, "\n".join([*found[:5], whole_app(app)])
