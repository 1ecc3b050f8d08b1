"""A join looks at few more pairs than it gives. Its blocks are small, except for the pairs of one instant, and text
fits its offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kigen_lab.bench.joins.app import kernel_table
from lifetimes.bids import make_kernel, named, random_bids, windowed

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.blocks import Block
from kigen.lifetimes.joins import join_side
from kigen.lifetimes.joins.join import DirectJoin, JoinBase, NegativeJoin
from kigen.plan import bind
from kigen.plan.tasks import extract_tasks


@dataclass
class Watched:
    """Everything that went into joins and came out."""

    given: int = 0
    made: list[Any] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(len(message) for message in self.made)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen = Watched()
    for kind in (DirectJoin, NegativeJoin):
        monkeypatch.setattr(kind, "pieces", _watching(kind.pieces, seen))
    return seen


def _watching(pieces: Any, seen: Watched) -> Any:
    def watching(self: JoinBase, inputs: list[Any], now: int) -> Iterator[tuple[int, Any]]:
        seen.given += sum(len(message) for message in inputs)
        for until, message in pieces(self, inputs, now):
            seen.made.append(message)
            yield until, message

    return watching


def run_in_blocks(kernel: TaskRuntime, given: pa.Table, block: int) -> int:
    """Returns how many pairs the joins looked at."""
    for at in range(0, given.num_rows, block):
        kernel.step({"bids": StreamInput([given.slice(at, block)], ended=at + block >= given.num_rows)})
    return sum(operator.formed for operator in kernel.operators if isinstance(operator, JoinBase))


@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("block", [50, 3_000])
@pytest.mark.parametrize("range_us", [None, 60_000_000])
def test_versions_meet_few_that_they_do_not_pair_with(
    watched: Watched, mode: str, block: int, range_us: int | None
) -> None:
    """Two aggregates by day each have some thousand versions of two keys."""
    kernel = make_kernel(windowed(named("nested"), range_us), mode)
    formed = run_in_blocks(kernel, kernel_table(random_bids(Random(1), 3_000, 50)), block)
    assert watched.rows > 1_500
    assert formed <= 4 * (watched.rows + watched.given)


@pytest.mark.parametrize("most", [50, 200])
@pytest.mark.parametrize("range_us", [None, 30_000_000])
def test_blocks_are_small_but_for_one_instant(
    watched: Watched, most: int, range_us: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_side, "MOST_PAIRS", most)
    kernel = make_kernel(windowed(named("ranked"), range_us), "dt")
    run_in_blocks(kernel, kernel_table(random_bids(Random(2), 160)), 160)
    assert watched.rows > 4 * most
    for block in watched.made:
        assert isinstance(block, Block)
        _, at_once = np.unique(block.start, return_counts=True)
        assert len(block) <= most + max(at_once, default=0)


@pytest.mark.parametrize("mode", ["dt", "nt"])
def test_text_is_handed_on_in_pieces(watched: Watched, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled down from 2^28 and 2^31 bytes: the text of all pairs is eight times as much as one array may hold, that of
    a piece is not."""
    monkeypatch.setattr(join_side, "MOST_BYTES", 1 << 22)
    text, rows = "x" * 2_000, 100
    declared = "".join(
        f"CREATE STREAM {s} (k BIGINT, t STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'x');" for s in "ab"
    )
    app = bind(
        declared + "CREATE QUERY q AS SELECT a.t AS at, b.t AS bt FROM a [UNBOUNDED], b [UNBOUNDED] WHERE a.k = b.k;"
    )
    (task,) = extract_tasks(app)
    kernel = TaskRuntime(task, app, mode)
    inputs = {}
    for side, name in enumerate("ab"):
        ts = pa.array([2 * i + side for i in range(rows)])
        columns = [pa.array([1] * rows), pa.array([f"{i}{text}" for i in range(rows)]), ts.cast(pa.timestamp("us")), ts]
        inputs[name] = StreamInput([pa.table(columns, names=["c0", "c1", "c2", "_ts"])], ended=True)
    lines: list[int] = []
    kernel.step(inputs, lambda _, table: lines.append(table.num_rows))
    assert sum(lines) == watched.rows == rows * rows
    sizes = [message.columns.nbytes for message in watched.made]
    assert sum(sizes) > 8 * (1 << 22)
    assert max(sizes) < 2 * (1 << 22)
    assert len(sizes) > 8
