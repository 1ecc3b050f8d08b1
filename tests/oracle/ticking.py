"""Draws apps in which queries read an RSTREAM[n SECONDS], alone and together with streams that end earlier or later."""

from __future__ import annotations

from random import Random

from oracle.shapes import App, Col, Query, Row, Stream, Text, Window, Windowed

SECOND = 1_000_000
START_US = 1_700_000_000 * SECOND
COLS = (Col("k", "BIGINT"), Col("v", "BIGINT"), Col("ts", "TIMESTAMP"))
TICKS = (Col("k", "BIGINT"), Col("n", "BIGINT"))
PAIRS = (Col("k", "BIGINT"), Col("n", "BIGINT"), Col("v", "BIGINT"))
WINDOWS = ("RANGE 3 SECONDS", "RANGE 1 SECONDS", "ROWS 3", "UNBOUNDED", "NOW", "RANGE 4 SECONDS SLIDE 2 SECONDS")


def generate_ticking(seed: int) -> App:
    rng = Random(f"ticking {seed}")
    streams = tuple(_stream(rng, name) for name in ("a", "b", "c"))
    queries = [_ticks(rng, "ticks", "SELECT k, COUNT(*) AS n FROM {0} GROUP BY k", "a")]
    for i in range(rng.choice((1, 2, 3))):
        queries.append(_reader(rng, f"q{i}"))
    if rng.random() < 0.4:
        queries.append(_ticks(rng, "again", "SELECT k, SUM(n) AS n FROM {0} GROUP BY k", "ticks", TICKS))
        queries.append(_reader(rng, "last", "again"))
    return App(seed, streams, tuple(queries))


def _stream(rng: Random, name: str) -> Stream:
    seconds = rng.choice((0, 2, 5, 11))
    times = sorted(rng.randrange(seconds * SECOND) for _ in range(rng.randint(1, 12))) if seconds else []
    rows: tuple[Row, ...] = tuple((rng.randrange(3), i, START_US + at) for i, at in enumerate(times))
    return Stream(name, COLS, 2, rows)


def _windowed(rng: Random, source: str, cols: tuple[Col, ...] = COLS) -> Windowed:
    text = rng.choice(WINDOWS)
    return Windowed(source, Window(text.partition(" ")[0], text), None, cols)


def _ticks(rng: Random, name: str, template: str, source: str, cols: tuple[Col, ...] = COLS) -> Query:
    seconds = rng.choice((1, 2, 3))
    body = Text(template, (_windowed(rng, source, cols),))
    return Query(name, body, TICKS, "RSTREAM", seconds * SECOND, f"[{seconds} SECONDS]")


def _reader(rng: Random, name: str, ticks: str = "ticks") -> Query:
    """Reads ticks alone, or with another stream, or with the one that the ticks come from."""
    mine = _windowed(rng, ticks, TICKS)
    other = rng.choice((None, "a", "b", "b", "c"))
    kind = rng.choice((None, None, "ISTREAM", "DSTREAM"))
    if other is None:
        return Query(name, Text("SELECT k, SUM(n) AS n FROM {0} GROUP BY k", (mine,)), TICKS, kind)
    body = Text("SELECT t.k, t.n, o.v FROM {0} AS t, {1} AS o WHERE t.k = o.k", (mine, _windowed(rng, other)))
    return Query(name, body, PAIRS, kind)
