"""DESCRIBE proposes statements that bind and that fit the data they were made from."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.cli.describe_command import proposals
from kigen.connectors import InputError, open_source
from kigen.language import CqlErrors
from kigen.plan import bind

CSV = (
    "room,n,temp,ok,day,ts\nhall,1,1.5,true,2026-01-01,2026-01-01T00:00:05Z\n"
    '"a ""b""",,2,false,x,2026-01-01T00:00:02Z\n'
)


def bound(statement: str, folder: Path) -> dict[str, str]:
    """Binds the statement, reads all rows with it, and returns its columns and types."""
    app = bind(statement + "\nCREATE QUERY q AS SELECT * FROM data [NOW];", directory=str(folder))
    stream = app.stream("data")
    source = open_source(stream, str(folder), True, 0)
    rows = source.read(source.advance(source.initial(), 10_000))
    assert rows.skipped == 0
    return {column.name: str(column.type) for column in stream.schema}


def test_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(CSV, encoding="utf-8")
    statement = proposals("data.csv")
    types = ["STRING", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "TIMESTAMP"]
    assert list(bound(statement, tmp_path).values()) == types
    assert "TIMESTAMP BY ts LATENESS 3 SECONDS\n  FROM csv (path = 'data.csv');" in statement


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "x": 1, "tags": ["a"], "made up": None, "time": "2026-01-01T00:00:00Z"},
        {"id": 2, "x": 1.5, "time": "2026-01-01T00:00:00Z", "ok": True},
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "what.cql").write_text("DESCRIBE jsonl (path = 'data.jsonl', follow = true);", encoding="utf-8")
    statement = proposals(str(tmp_path / "what.cql"))
    assert bound(statement, tmp_path) == {
        "id": "BIGINT", "x": "DOUBLE", "made up": "STRING", "time": "TIMESTAMP", "ok": "BOOLEAN",
    }  # fmt: skip
    assert "-- left out: tags" in statement
    assert "follow = true" in statement


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pa.table(
        {
            "b": [True, False], "i": pa.array([1, 2], pa.int32()), "d": pa.array([1, 2], pa.float32()),
            "s": ["x", None], "l": [[1], [2]], "at": pa.array([5, 6], pa.timestamp("ms", "UTC")),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "data.parquet")
    assert bound(proposals("data.parquet"), tmp_path) == {
        "b": "BOOLEAN", "i": "BIGINT", "d": "DOUBLE", "s": "STRING", "l": "BIGINT[]", "at": "TIMESTAMP",
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_random_csv_fits_its_proposal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    pools = [["1", "-7", ""], ["1.5", "2e3", "4"], ["true", "FALSE"], ["x", "", "1"], ["2026-01-01T00:00:00Z", ""]]
    chosen = [chance.choice(pools) for _ in range(4)]
    rows = [",".join(chance.choice(pool) for pool in chosen) + f",2026-01-01T00:00:{n:02d}Z" for n in range(30)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,b,c,d,ts\n" + "\n".join(rows) + "\n", encoding="utf-8")
    assert bound(proposals("data.csv"), tmp_path)["ts"] == "TIMESTAMP"


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(CqlErrors, match="unknown option pth"):
        proposals("DESCRIBE csv (pth = 'x')")
    with pytest.raises(InputError, match="no such file"):
        proposals(str(tmp_path / "none.csv"))
    with pytest.raises(CqlErrors, match="expected CREATE"):
        bind("DESCRIBE csv (path = 'x.csv');")
