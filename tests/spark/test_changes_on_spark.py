"""Changes through Spark: in many batches, with large results as files, and beside lines. They are one sequence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kigen.engine import Engine

APP = """
CREATE STREAM readings (room STRING, temp BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE QUERY recent AS SELECT room, temp FROM readings [RANGE 3 SECONDS] INTO jsonl (path = '{out}/recent.jsonl', mode = 'changes');
CREATE QUERY tops AS SELECT room, MAX(temp) AS top FROM readings [ROWS 5] GROUP BY room INTO csv (path = '{out}/tops.csv', mode = 'changes');
"""


def write(directory: Path) -> None:
    rows = [f"r{i % 3},{i * 7 % 11},2026-01-01T00:{i // 60:02}:{i % 60:02}Z" for i in range(300)]
    (directory / "readings.csv").write_text("room,temp,ts\n" + "\n".join(rows) + "\n", encoding="utf-8")


@pytest.mark.timeout(300)
def test_changes_are_the_same_sequence_however_batches_are_cut(engine: Engine, tmp_path: Path) -> None:
    write(tmp_path)
    for out, options in (
        ("whole", {"output": str(tmp_path / "lines")}),
        ("cut", {"batch_rows": 60, "inline_bytes": 100, "lifetime": "nt"}),
    ):
        app = tmp_path / f"{out}.cql"
        app.write_text(APP.format(out=out), encoding="utf-8")
        result = engine.run(app, drain=True, keep_results=False, **options)
        assert result.report["queries"]["recent"]["out"] == 597
    for name in ("recent.jsonl", "tops.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    changes = [json.loads(line) for line in (tmp_path / "whole/recent.jsonl").read_text().splitlines()]
    assert Counter(c["_op"] for c in changes) == {"insert": 300, "delete": 297}
    assert [c["_at"] for c in changes] == sorted(c["_at"] for c in changes)
    assert (tmp_path / "lines/recent.csv").read_text().count("\n") == 301
    assert (tmp_path / "lines/tops.csv").read_text().startswith("room,top,_from,_to\n")
