"""A join looks at the pairs that it gives and at few others: it meets the versions of one key in the order of time."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kigen.lifetimes.blocks import FOREVER, NO_HOLDER, Fills, Ints
from kigen.lifetimes.chunks import Chunk
from kigen.lifetimes.joins.greatest_tree import GreatestTree
from kigen.lifetimes.joins.join_side import Comparing, JoinSide
from kigen.lifetimes.joins.stretches import Keyed, find
from kigen.lifetimes.sweeps.time_cuts import even_cuts
from kigen.plan.types import Column, Type

SCHEMA = (Column("n", Type.BIGINT), Column("v", Type.DOUBLE))


def keyed(
    key: list[int], start: list[int], end: list[int], value: list[float | None], holder: list[int] | None = None
) -> Keyed:
    columns = pa.record_batch({"c0": pa.array(range(len(key)), pa.int64()), "c1": pa.array(value, pa.float64())})
    holders = np.full(len(key), NO_HOLDER) if holder is None else np.array(holder, dtype=np.int64)
    chunk = Chunk(columns, np.array(start, dtype=np.int64), np.array(end, dtype=np.int64), holders)
    return Keyed(chunk, np.array(key, dtype=np.int64))


def versions(rng: Random, count: int, keys: int, shape: str) -> Keyed:
    """Draws tuples of few keys, so that each key has many versions."""
    key, start, end = [], [], []
    clock = dict.fromkeys(range(keys), 0)
    for _ in range(count):
        k = rng.randrange(keys)
        begin = clock[k] if shape == "versions" else rng.randrange(4 * count)
        length = {"versions": rng.randint(1, 9), "range": 40, "any": rng.choice((1, 3, 10, 8 * count))}[shape]
        clock[k] = begin + length
        key.append(k), start.append(begin), end.append(begin + length)
    values = [rng.choice((None, rng.uniform(-5, 5), float("nan"), -0.0)) for _ in key]
    return keyed(key, start, end, values)


def expected(left: Keyed, right: Keyed, comparing: Comparing | None = None) -> set[tuple[int, int]]:
    """Pairs every tuple with every other."""
    a, b = left.chunk, right.chunk
    out = set()
    values = a.columns.column(1).to_pylist(), b.columns.column(1).to_pylist()
    for i in range(len(a)):
        for j in range(len(b)):
            meet = left.keys[i] == right.keys[j] and max(a.start[i], b.start[j]) < min(a.end[i], b.end[j])
            if meet and (comparing is None or _compare(values[1][j], comparing.op, values[0][i])):
                out.add((i, j))
    return out


def _compare(kept: float | None, op: str, probing: float | None) -> bool:
    if kept is None or probing is None:
        return False
    rank = [(1, 0.0) if v != v else (0, v) for v in (kept, probing)]
    return {"<": rank[0] < rank[1], "<=": rank[0] <= rank[1], ">": rank[0] > rank[1], ">=": rank[0] >= rank[1]}[op]


def found_pairs(side: JoinSide, probes: Keyed) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for matches in side.matches(find(side, probes)):
        pairs += zip(
            matches.left.columns.column(0).to_pylist(), matches.right.columns.column(0).to_pylist(), strict=True
        )
    return pairs


@pytest.mark.parametrize("shape", ["versions", "range", "any"])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_formed_are_those_given(seed: int, shape: str) -> None:
    rng = Random(seed)
    keys = rng.choice((1, 2, 7))
    left, right = versions(rng, 300, keys, shape), versions(rng, 250, keys, shape)
    side = JoinSide(SCHEMA)
    for begin in range(0, 250, 83):  # several pieces
        part = slice(begin, min(begin + 83, 250))
        side.add(right.chunk.cut(part.start, part.stop), right.keys[part])
    found, wanted = found_pairs(side, left), expected(left, right)
    assert sorted(found) == sorted(wanted)
    assert side.formed <= 4 * (len(wanted) + len(left.keys) + len(right.keys))


@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("seed", range(4))
def test_comparisons_meet_fewer(seed: int, op: str) -> None:
    """Candidates that are left out do not satisfy the comparison, and none that satisfies it is left out."""
    rng = Random(seed)
    left, right = versions(rng, 200, 2, "any"), versions(rng, 200, 2, "any")
    comparing = Comparing(1, op, 1)
    side = JoinSide(SCHEMA, [comparing])
    side.add(right.chunk, right.keys)
    found, wanted = found_pairs(side, left), expected(left, right, comparing)
    assert set(found) >= wanted
    assert set(found) <= expected(left, right)
    assert len(found) == len(set(found))


def test_an_inequality_alone_is_searched() -> None:
    """A tuple whose comparison holds for few of many tuples meets few."""
    count = 2_000
    right = keyed([0] * count, [0] * count, [FOREVER] * count, [float(i) for i in range(count)])
    left = keyed([0] * 50, [1] * 50, [FOREVER] * 50, [float(i) for i in range(50)])
    side = JoinSide(SCHEMA, [Comparing(1, "<", 1)])
    side.add(right.chunk, right.keys)
    assert len(found_pairs(side, left)) == sum(range(50))
    assert side.formed == sum(range(50))


@pytest.mark.parametrize("seed", range(5))
def test_fills_in_any_order_keep_probes_exact(seed: int) -> None:
    rng = Random(seed)
    count = 300
    start = sorted(rng.randrange(1_000) for _ in range(count))
    open_ = keyed([0] * count, start, [FOREVER] * count, [0.0] * count, list(range(count)))
    side = JoinSide(SCHEMA)
    side.add(open_.chunk, open_.keys)
    end = open_.chunk.end.copy()
    for _ in range(4):
        chosen = rng.sample(range(count), 40)
        deaths = [max(start[i] + 1, rng.randrange(1_200)) for i in chosen]
        side.fill(Fills(np.array(chosen), np.array(deaths)))
        end[chosen] = np.minimum(end[chosen], deaths)
        probes = keyed([0] * 20, at := [rng.randrange(1_200) for _ in range(20)], [a + 1 for a in at], [0.0] * 20)
        now = Keyed(Chunk(open_.chunk.columns, open_.chunk.start, end, open_.chunk.holder), open_.keys)
        before = side.formed
        wanted = expected(probes, now)
        assert sorted(found_pairs(side, probes)) == sorted(wanted)
        assert side.formed - before <= 4 * (len(wanted) + count)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100])
def test_tree_of_greatest(size: int) -> None:
    rng = np.random.default_rng(size)
    values: Ints = rng.integers(0, 20, size)
    tree = GreatestTree(values)
    for _ in range(5):
        begin = rng.integers(0, size + 1, 30)
        stop = np.minimum(begin + rng.integers(0, size + 1, 30), size)
        bound = rng.integers(-1, 21, 30)
        mine, place = tree.above(begin, stop, bound)
        wanted = {(q, i) for q in range(30) for i in range(begin[q], stop[q]) if values[i] > bound[q]}
        assert len(mine) == len(wanted)
        assert set(zip(mine.tolist(), place.tolist(), strict=True)) == wanted
        changed = rng.integers(0, size, 3)
        values[changed] -= rng.integers(0, 9, 3)
        tree.sank(changed)


def test_cuts_are_even() -> None:
    at, loads = np.array([5, 1, 1, 2, 3, 3, 9]), np.array([2, 1, 1, 1, 5, 1, 1])
    assert even_cuts(at, loads, 3) == [3, 5]
    assert even_cuts(at, loads, 100) == []
    assert even_cuts(np.array([4, 4]), np.array([9, 9]), 3) == []
