"""Tiny benchmark runs on Spark: both sides give the kernel's rows, and plain Spark also numpy's average."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from kigen_lab.bench.lifetimes.data import make_data
from kigen_lab.bench.lifetimes.kernel import run_kernel
from kigen_lab.bench.lifetimes.kigen_side import run_end_to_end
from kigen_lab.bench.lifetimes.newer_queries import BY_NAME
from kigen_lab.bench.lifetimes.plain_queries import average_step

from kigen.engine import Engine


def test_kigen_end_to_end_gives_the_kernels_rows(engine: Engine, tmp_path: Path) -> None:
    query = BY_NAME["join"]
    data = make_data(tmp_path, query.streams, 4_000, 500)
    answer = run_end_to_end(engine, query, "range", 100, "dt", data.paths, tmp_path / "rows", 1_000)
    assert answer["rows"] == run_kernel(query, "range", 100, "dt", 4_000, 1_000).rows
    assert answer["tuples"] == 4_000
    assert answer["batches"] >= 4
    assert answer["rate"] > 0
    assert not (tmp_path / "rows").exists()


class State:
    """The part of Spark's group state that is used."""

    def __init__(self) -> None:
        self.value: tuple[bytes, bytes, int] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[bytes, bytes, int]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[bytes, bytes, int]) -> None:
        self.value = value


def test_plain_average_is_the_same_however_it_is_cut() -> None:
    frame = pd.DataFrame({"ts": [0, 4, 8, 20, 24], "cb": [1, 2, 6, 5, 7]})
    whole = average_step(iter([frame]), State(), 6)
    state = State()
    cut = pd.concat([average_step(iter([frame[:2]]), state, 6), average_step(iter([frame[2:]]), state, 6)])
    expected = [(1.0, 0, 4), (1.5, 4, 6), (2.0, 6, 8), (4.0, 8, 10), (6.0, 10, 14), (5.0, 20, 24)]
    assert list(whole.itertuples(index=False, name=None)) == expected
    assert list(cut.itertuples(index=False, name=None)) == expected
