"""Blocks survive a queue: as rows, cut and joined anywhere, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Block, Fills, Signed, StreamBlock
from kigen.links import Queue
from kigen.links.rows import (
    relation_of,
    relation_rows,
    relation_schema,
    signed_of,
    signed_rows,
    signed_schema,
    stream_of,
    stream_rows,
    stream_schema,
)

COLUMNS = pa.schema([("room", pa.string()), ("temp", pa.float64())])


def columns(rng: np.random.Generator, size: int) -> pa.RecordBatch:
    rooms = pa.array([None if r == 3 else f"r{r}" for r in rng.integers(0, 4, size)], pa.string())
    return pa.RecordBatch.from_arrays([rooms, pa.array(rng.normal(size=size))], schema=COLUMNS)


@pytest.mark.parametrize("seed", range(10))
def test_relation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = []
    with Queue("r", relation_schema(COLUMNS)) as queue:
        for _ in range(8):
            size, fills = int(rng.integers(0, 20)), int(rng.integers(0, 6))
            open_ends = rng.random(size) < 0.5
            start = np.sort(rng.integers(0, 1000, size))
            end = np.where(open_ends, FOREVER, start + 50)
            holder = np.where(open_ends, rng.integers(0, 99, size), NO_HOLDER)
            block = Block(columns(rng, size), start, end, holder, Fills(rng.integers(0, 99, fills), rng.integers(0, 1000, fills)))
            queue.append(relation_rows(block))
            blocks.append(block)
        assert queue.status()["end"] == sum(len(b) + len(b.fills) for b in blocks)
        parts, offset = [], 0
        while offset < queue.status()["end"]:
            reading = queue.read(offset, int(rng.integers(1, 30)))
            parts.append(relation_of(reading.batch()))
            offset = reading.next
    got, sent = Block.concat(parts), Block.concat(blocks)
    assert got.columns.equals(sent.columns)
    for name in ("start", "end", "holder"):
        assert np.array_equal(getattr(got, name), getattr(sent, name))
    assert np.array_equal(got.fills.holder, sent.fills.holder)
    assert np.array_equal(got.fills.end, sent.fills.end)


def test_stream_and_signed() -> None:
    rng = np.random.default_rng(1)
    some, at = columns(rng, 9), np.arange(9) * 10
    stream = stream_of(stream_rows(StreamBlock(some, at, np.arange(9))))
    assert stream.columns.equals(some)
    assert np.array_equal(stream.at, at)
    assert np.array_equal(stream.sequence, np.arange(9))
    assert stream_rows(stream).schema.equals(stream_schema(COLUMNS))
    signed = signed_of(signed_rows(Signed(some, at, np.where(at % 20, -1, 1), at + 5)))
    assert signed.columns.equals(some)
    assert np.array_equal(signed.sign, np.where(at % 20, -1, 1))
    assert np.array_equal(signed.id, at + 5)
    assert signed_rows(signed).schema.equals(signed_schema(COLUMNS))
