"""Draws random streams: small ones with many difficult cases (ties, NULLs, bursts, empty streams, skew, odd text, large
numbers)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from oracle.shapes import Col, Row, Stream

UNITS = (1, 1_000, 1_000_000, 60_000_000)
NAMES = ("id", "room", "temp", "val", "tag", "flag", "speed", "score", "amount", "note", "code", "kind_of")
TEXTS = (
    "a",
    "b",
    "c",
    "A",
    "",
    "ü",
    "日本",
    "O'Brien",
    'say "hi"',
    "line\nbreak",
    "a,b",
    " x ",
    "NULL",
    "50%",
    "_a",
    "ab",
    "🙂é",
    "Ab\tc",
)
BASE = 1_704_067_200_000_000  # 2024-01-01
TYPES = ("BIGINT", "BIGINT", "STRING", "STRING", "DOUBLE", "DOUBLE", "BOOLEAN", "TIMESTAMP")


@dataclass(frozen=True)
class Scale:
    """Settings that all streams of an app share, so that their values meet. Sometimes streams are long, and then
    queries are simple."""

    unit: int
    base: int
    most_rows: int
    dyadic: bool

    @staticmethod
    def draw(rng: Random) -> Scale:
        unit = rng.choice(UNITS)
        base = 0 if rng.random() < 0.06 else BASE + rng.choice((0, 0, 86_399_000_000, 1, 999_999, 1_234_567))
        return Scale(unit, base, rng.choice((6, 12, 12, 20, 20, 35, 60) * 3 + (200,)), rng.random() < 0.65)


def draw_times(rng: Random, scale: Scale, count: int) -> list[int]:
    """Draws nondecreasing times, with ties, neighbours a microsecond apart, bursts and multiples of the unit."""
    t = scale.base + rng.randint(-3, 3) * scale.unit
    busy = rng.random()
    times = []
    for _ in range(count):
        roll = rng.random()
        if roll < 0.25:
            step = 0
        elif roll < 0.35:
            step = 1
        elif roll < 0.35 + 0.25 * busy:
            step = rng.randint(0, max(1, scale.unit // 10))
        elif roll < 0.85:
            step = rng.randint(1, 4) * scale.unit
        elif roll < 0.95:
            step = -t % (scale.unit * rng.choice((1, 2, 5)))
        else:
            step = rng.randint(5, 30) * scale.unit
        t += step
        times.append(t)
    return times


def draw_value(rng: Random, col: Col, scale: Scale, skew: float) -> Any:
    if col.type == "BOOLEAN":
        return rng.random() < skew
    if col.type == "STRING":
        return TEXTS[min(int(rng.expovariate(skew)), len(TEXTS) - 1)] if rng.random() < 0.8 else rng.choice(TEXTS)
    if col.type == "TIMESTAMP":
        return scale.base + rng.randint(-3, 6) * scale.unit
    if col.type == "DOUBLE":
        if col.dyadic:
            return rng.randint(-8, 12) / 4 if rng.random() < 0.8 else rng.randint(-32768, 32767) / 8
        return (
            rng.randint(-30, 50) / 10
            if rng.random() < 0.8
            else rng.choice((0.1, 0.2, 0.3, 1 / 3, -7.77, 1234.567, 1e-7, 9999.99))
        )
    if rng.random() < 0.85 or col.bits < 10:
        return rng.choice((-1, 0, 1, 1, 2, 2, 2, 3, 4, 5))
    if col.bits < 40:
        return rng.choice((-(2**33), 10**9, 10**10 + 1, 2**31, -12345, 99))
    return rng.choice((2**53 + 1, 2**53, -(2**53) - 1, 2**61, -(2**61), 2**61 - 1, 10**18))


def draw_columns(rng: Random, scale: Scale) -> tuple[tuple[Col, ...], int]:
    """Draws columns, with the timestamp column anywhere among them."""
    names = rng.sample(NAMES, rng.randint(1, 5))
    cols = []
    for name in names:
        kind = rng.choice(TYPES)
        bits = rng.choice((4, 4, 4, 35, 62)) if kind == "BIGINT" else 15 if kind == "DOUBLE" else 8
        cols.append(Col(name, kind, bits, scale.dyadic if kind == "DOUBLE" else True))
    if not any(c.type == "BIGINT" and c.bits < 10 for c in cols):
        cols.append(Col("k", "BIGINT", 4))
    place = rng.randint(0, len(cols))
    cols.insert(place, Col("ts", "TIMESTAMP"))
    return tuple(cols), place


def draw_stream(rng: Random, name: str, scale: Scale, like: Stream | None = None) -> Stream:
    cols, ts = (like.cols, like.ts) if like is not None else draw_columns(rng, scale)
    count = 0 if rng.random() < 0.06 else rng.randint(1, scale.most_rows)
    nulls = [0.0 if rng.random() < 0.4 else rng.choice((0.1, 0.1, 0.3, 0.7)) for _ in cols]
    skew = rng.choice((0.3, 0.6, 0.9))
    rows: list[Row] = []
    for t in draw_times(rng, scale, count):
        values = [None if rng.random() < nulls[i] else draw_value(rng, col, scale, skew) for i, col in enumerate(cols)]
        values[ts] = t
        rows.append(tuple(values))
    lateness = rng.randint(1, 5) if rng.random() < 0.2 else 0
    if rng.random() < (0.7 if lateness else 0.05):
        rows = disordered(rng, rows, ts, scale, lateness)
    clauses = f"LATENESS {lateness} SECONDS" if lateness else rng.choice(("", "", "", "ON ERROR FAIL", "BUFFER 1000"))
    return Stream(name, cols, ts, tuple(rows), clauses, lateness * 1_000_000)


def disordered(rng: Random, rows: list[Row], ts: int, scale: Scale, lateness: int) -> list[Row]:
    """Puts a file out of order: mostly within the lateness, sometimes with a row that comes too late."""
    reach = max(2 * scale.unit, lateness * 500_000)
    delayed = [(row[ts] + (rng.randint(0, reach) if rng.random() < 0.4 else 0), k) for k, row in enumerate(rows)]
    return [rows[k] for _, k in sorted(delayed)]
