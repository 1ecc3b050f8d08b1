"""Kigen's own connectors pass the suite that users run on theirs: files, generated streams, and outputs of files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kigen.testing.connector import SINK_CHECKS, SOURCE_CHECKS, SinkCase, SourceCase, Target

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "(id BIGINT, name STRING, ts TIMESTAMP) TIMESTAMP BY ts"
NAMES = ("plain", "a, b", 'say "hi"', "é", None)
ROWS = [(n, NAMES[n % 5], START + timedelta(seconds=n)) for n in range(23)]


def csv_line(row: tuple[Any, ...]) -> str:
    name = "" if row[1] is None else '"' + row[1].replace('"', '""') + '"'
    return f"{row[0]},{name},{row[2].isoformat()}\n"


def json_line(row: tuple[Any, ...]) -> str:
    return json.dumps({"id": row[0], "name": row[1], "ts": row[2].isoformat()}) + "\n"


def write_text(folder: Path, kind: str, bad: bool, rows: list[tuple[Any, ...]] = ROWS) -> list[str]:
    """Writes two files, with bad rows in both, and returns the places of the bad rows."""
    header, line, wrong = (
        ("id,name,ts\n", csv_line, ["x,wrong id,2026-01-01T00:00:00Z\n", "1,no time,\n"])
        if kind == "csv"
        else ("", json_line, ['{"id": "x", "ts": "2026-01-01T00:00:00Z"}\n', "no object\n"])
    )
    places = []
    for number, some in enumerate((rows[:9], rows[9:])):
        lines = [header] if header else []
        for at, row in enumerate(some):
            if bad and at % 5 == 2:
                lines.append(wrong[at % 2])
                places.append(f"{number}.{kind}:{len(lines)}")
            lines.append(line(row))
        (folder / f"{number}.{kind}").write_text("".join(lines), encoding="utf-8")
    return places


def write_parquet(folder: Path, rows: list[tuple[Any, ...]] = ROWS) -> None:
    ids, names, times = (list(column) for column in zip(*rows, strict=True))
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string()), "ts": stamps})
    pq.write_table(table.slice(0, 9), folder / "0.parquet", row_group_size=4)
    pq.write_table(table.slice(9), folder / "1.parquet", row_group_size=5)


def source_case(kind: str, folder: Path) -> SourceCase:
    if kind.startswith("synthetic"):
        options = "rate = 100, arrivals = 'poisson', seed = 3, rows = 40, id = 'sequence'"
        return SourceCase(f"CREATE STREAM s (id BIGINT) FROM synthetic ({options})", live=kind == "synthetic live")
    name, _, how = kind.partition(" ")
    places: list[str] = []
    if name == "parquet":
        write_parquet(folder)
    else:
        places = write_text(folder, name, "bad" in how)
    options = f"path = '*.{name}'" + (", follow = true" if "followed" in how else "")
    options += ", pace = 1000" if "paced" in how else ""
    idle = "IDLE 1 HOURS" if "idle" in how else ""
    declaration = f"CREATE STREAM s {COLUMNS} {idle} FROM {name} ({options})"
    return SourceCase(declaration, ROWS, places, folder, "followed" in how or "paced" in how, folder / "checkpoint")


SOURCES = [
    "csv", "csv bad", "csv followed", "csv followed bad", "csv followed idle", "jsonl", "jsonl bad", "jsonl followed",
    "jsonl followed bad", "parquet", "parquet followed", "csv paced", "jsonl paced bad", "parquet paced", "synthetic", "synthetic live",
]  # fmt: skip


@pytest.mark.parametrize("check", SOURCE_CHECKS)
@pytest.mark.parametrize("kind", SOURCES)
def test_sources(kind: str, check: Callable[[SourceCase], None], tmp_path: Path) -> None:
    check(source_case(kind, tmp_path))


def read_csv(path: Path) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def target(kind: str, options: str, folder: Path) -> Callable[[str], Target]:
    def made(name: str) -> Target:
        path = folder / name
        read: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "csv": lambda: read_csv(path),
            "jsonl": lambda: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()],
            "parquet": lambda: pq.read_table(path).to_pylist(),
            "delta": lambda: DeltaTable(str(path)).to_pyarrow_table().to_pylist(),
        }
        return Target(f"{kind} (path = '{name}'{options})", read[kind], folder)

    return made


SINKS = [
    ("csv", ""),
    ("csv", ", mode = 'changes'"),
    ("jsonl", ""),
    ("jsonl", ", mode = 'changes'"),
    ("parquet", ""),
    ("parquet", ", mode = 'changes'"),
    ("parquet", ", roll_size = '1 KB'"),
    ("parquet", ", partition_by = 'value'"),
    ("delta", ""),
    ("delta", ", mode = 'changes', compact_every = 2"),
]


@pytest.mark.parametrize("check", SINK_CHECKS)
@pytest.mark.parametrize("relation", [True, False], ids=["relation", "stream"])
@pytest.mark.parametrize(("kind", "options"), SINKS)
def test_sinks(kind: str, options: str, relation: bool, check: Callable[[SinkCase], None], tmp_path: Path) -> None:
    check(SinkCase(target(kind, options, tmp_path), relation))
