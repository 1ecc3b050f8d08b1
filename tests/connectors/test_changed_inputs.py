"""Tests files that change during a run: reading a range again must give the same rows, and half a line is not a
record."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kigen.connectors import InputError, Range, open_source
from kigen.connectors.text_files import SETTLED_S

LINES = {
    "csv": ("ts,n\n", [f"1970-01-01T00:00:0{i}Z,{i}\n" for i in range(8)]),
    "jsonl": ("", [f'{{"ts": "1970-01-01T00:00:0{i}Z", "n": {i}}}\n' for i in range(8)]),
}


def text_source(tmp_path: Path, make_stream: Any, kind: str, text: str, draining: bool = True) -> Any:
    (tmp_path / f"in.{kind}").write_text(text, encoding="utf-8")
    return open_source(make_stream(kind, "ts TIMESTAMP, n BIGINT", path=f"in.{kind}"), str(tmp_path), draining, None)


def remembered(source: Any, max_rows: int) -> Range:
    """Returns a range as the state remembers it after it was read."""
    piece = source.advance(source.initial(), max_rows)
    found = Range.from_json(replace(piece, checksum=source.read(piece).checksum).to_json())
    assert found.checksum is not None
    return found


@pytest.mark.parametrize("kind", LINES)
def test_a_range_of_lines_that_changed_is_refused(kind: str, tmp_path: Path, make_stream: Any) -> None:
    head, lines = LINES[kind]
    source = text_source(tmp_path, make_stream, kind, head + "".join(lines))
    piece = remembered(source, 4)
    assert source.read(piece).table["c1"].to_pylist() == [0, 1, 2, 3]
    text_source(
        tmp_path, make_stream, kind, head + "".join([lines[5], *lines[1:]])
    )  # the same length as before, for example after a rotation
    message = (
        rf"in\.{kind}: has changed.*bytes \d+ to \d+ of stream 's' had checksum.*Restore the old file.*new --checkpoint"
    )
    with pytest.raises(InputError, match=message):
        source.read(piece)


def test_lines_that_follow_change_nothing(tmp_path: Path, make_stream: Any) -> None:
    head, lines = LINES["csv"]
    source = text_source(tmp_path, make_stream, "csv", head + "".join(lines))
    piece = remembered(source, 4)
    text_source(tmp_path, make_stream, "csv", head + "".join(lines) + lines[0])
    assert source.read(piece).table["c1"].to_pylist() == [0, 1, 2, 3]


def test_a_row_group_that_changed_is_refused(tmp_path: Path, make_stream: Any) -> None:
    def write(numbers: list[int]) -> Any:
        times = pa.array([i * 1_000_000 for i in range(8)], pa.timestamp("us"))
        pq.write_table(
            pa.table({"ts": times, "n": numbers, "other": numbers}), tmp_path / "in.parquet", row_group_size=2
        )
        return open_source(
            make_stream("parquet", "ts TIMESTAMP, n BIGINT", path="in.parquet"), str(tmp_path), True, None
        )

    piece = remembered(write(list(range(8))), 3)
    assert write(list(range(8))).read(piece).table["c1"].to_pylist() == [0, 1, 2]
    assert write([0, 1, 2, 3, 9, 9, 9, 9]).read(piece).table["c1"].to_pylist() == [0, 1, 2], (
        "later groups are none of its business"
    )
    with pytest.raises(InputError, match=r"in\.parquet: has changed.*row group 0, row 0 to row group 1, row 1"):
        write([0, 1, 7, 3, 4, 5, 6, 7]).read(piece)


@pytest.mark.parametrize("kind", LINES)
def test_half_a_line_is_no_record_while_somebody_writes(kind: str, tmp_path: Path, make_stream: Any) -> None:
    head, lines = LINES[kind]
    half = head + "".join(lines[:2]) + lines[2][:-6]
    source = text_source(tmp_path, make_stream, kind, half, draining=False)
    first = source.advance(source.initial(), 100)
    assert (first.rows, first.ended) == (2, False)
    assert source.read(first).table["c1"].to_pylist() == [0, 1]
    waiting = source.advance(first.end, 100)
    assert (waiting.start, waiting.rows, waiting.ended) == (waiting.end, 0, False)
    (tmp_path / f"in.{kind}").write_text(head + "".join(lines[:3]), encoding="utf-8")
    rest = source.advance(first.end, 100)
    assert source.read(rest).table["c1"].to_pylist() == [2]
    assert rest.ended


@pytest.mark.parametrize("kind", LINES)
def test_a_file_that_nobody_writes_to_any_more_is_complete(kind: str, tmp_path: Path, make_stream: Any) -> None:
    head, lines = LINES[kind]
    source = text_source(tmp_path, make_stream, kind, head + "".join(lines[:3]).rstrip("\n"), draining=False)
    old = time.time() - SETTLED_S - 5
    os.utime(tmp_path / f"in.{kind}", (old, old))
    piece = source.advance(source.initial(), 100)
    assert (piece.rows, piece.ended) == (3, True)


@pytest.mark.parametrize("kind", LINES)
def test_draining_reads_a_file_as_it_was_at_the_start(kind: str, tmp_path: Path, make_stream: Any) -> None:
    head, lines = LINES[kind]
    source = text_source(tmp_path, make_stream, kind, head + "".join(lines[:3]).rstrip("\n"))
    first = source.advance(source.initial(), 2)
    with open(tmp_path / f"in.{kind}", "a", encoding="utf-8") as file:
        file.write("\n" + "".join(lines[3:]))
    rest = source.advance(first.end, 100)
    assert source.read(rest).table["c1"].to_pylist() == [2]
    assert rest.ended
