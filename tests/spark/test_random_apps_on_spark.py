"""Random apps through Spark, from csv files to csv files: 40 seeds in a few apps, in one session, with both methods."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.compare import judge, line_difference, lines_of_csv, whole_app
from oracle.evaluate import Oracle
from oracle.generate import generate
from oracle.pack import pack
from oracle.render_cql import write_app

from kigen.engine import Engine

PACKED = 20  # starting a run takes seconds, so many apps share one
FIRST = 10_000
ROWS_PER_BATCH = {"dt": 58, "nt": 150}  # a few rows of each stream; the cuts differ, too


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + 40, PACKED))
def test_random_apps_through_spark(engine: Engine, tmp_path: Path, first: int) -> None:
    app = pack([generate(seed) for seed in range(first, first + PACKED)])
    path = write_app(app, tmp_path / "app")
    for mode, rows in ROWS_PER_BATCH.items():
        engine.run(str(path), drain=True, output=str(tmp_path / mode), lifetime=mode, batch_rows=rows)
    oracle = Oracle(app)
    found = []
    for q in app.queries:
        direct, negative = (lines_of_csv(tmp_path / mode / f"{q.name}.csv", q) for mode in ROWS_PER_BATCH)
        found += [
            report
            for report in (judge(oracle, q, direct), judge(oracle, q, negative), line_difference(direct, negative))
            if report
        ]
    assert not found, "\n".join([*found[:5], whole_app(app)])
