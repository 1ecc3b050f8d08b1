"""Random queries over DECIMAL, DATE, TIME, UUID and BLOB agree with DuckDB at every instant."""

from __future__ import annotations

from random import Random

import pytest
from typed_rows import Alive, app_text, check_at_every_instant, lines_of, over_query, random_rows
from types_soak import repetitions

NUMBERS = ["n", "m", "w", "m + n", "m * 3", "m + 0.25", "m - m", "m * m", "-m", "abs(m)", "CAST(n AS DECIMAL(6, 3))",
           "m / 4", "CAST(m AS DOUBLE)", "round(m, 1)", "CAST(n AS DECIMAL(4, 1)) * 0.5"]  # fmt: skip
DAYS = ["d", "ts", "CAST(ts AS DATE)", "CAST(d AS TIMESTAMP)", "date_trunc('month', d)", "last_day(d)"]
OTHERS = ["k", "t", "u", "b", "CAST(u AS STRING)", "CAST(t AS STRING)", "CAST(m AS STRING)", "octet_length(b)",
          "year(d)", "date_part('dow', d)", "hour(t)", "strftime(d, '%Y/%m')", "CAST(ts AS TIME)", "m IS NULL"]  # fmt: skip
CONDITIONS = ["m > 0", "m = 0.02", "d < DATE '2025-01-01'", "t >= TIME '12:30:00'", "m < n", "w > m", "d > CAST(ts AS DATE)",
              "u <> '12345678-90ab-cdef-1234-567890abcdef'", "b = 'abc'::BLOB", "d IN (DATE '2024-02-29', DATE '1969-12-31')",
              "m BETWEEN -0.01 AND 1.5", "u IS NOT NULL", "d IS NULL OR t IS NULL"]  # fmt: skip
KEYS = ["k", "m", "d", "t", "u", "b", "w", "n"]


def random_query(draw: Random, window: str) -> str:
    source = f"s {window}"
    where = f" WHERE {draw.choice(CONDITIONS)}" if draw.random() < 0.4 else ""
    every = NUMBERS + DAYS + OTHERS
    shape = draw.randrange(8)
    if shape == 0:
        chosen = ", ".join(f"{e} AS c{i}" for i, e in enumerate(draw.sample(every, 4)))
        return f"SELECT {draw.choice(['', 'DISTINCT '])}{chosen} FROM {source}{where}"
    if shape in (1, 2):
        aggregates = [draw.choice([f"SUM({draw.choice(NUMBERS[:4])})", f"AVG({draw.choice(NUMBERS[:4])})",
                                   f"MIN({draw.choice(every)})", f"MAX({draw.choice(every)})",
                                   f"COUNT(DISTINCT {draw.choice(every)})", f"COUNT({draw.choice(every)})",
                                   f"SUM(DISTINCT {draw.choice(['m', 'n'])})",
                                   f"list({draw.choice(every)} ORDER BY k, n, m, w, d, t, u, b, ts)"]) for _ in range(3)]  # fmt: skip
        keys = draw.sample(KEYS, draw.choice([0, 1, 1, 2]))
        chosen = ", ".join(f"{e} AS c{i}" for i, e in enumerate([*keys, *aggregates]))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {chosen} FROM {source}{where}{group}"
    if shape == 3:
        key = draw.choice(KEYS)
        kind = draw.choice(["JOIN", "LEFT JOIN"])
        return f"SELECT x.m, y.d, y.u, x.b FROM {source} AS x {kind} {source} AS y ON x.{key} = y.{key} AND x.n < y.n"
    if shape == 4:
        one, other = draw.sample(["m", "n", "w"], 2)
        both = draw.choice(["UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
        return f"SELECT {one} AS v, d FROM {source} {both} SELECT {other}, d FROM {source}{where}"
    if shape == 5:
        key = draw.choice(KEYS[1:])
        return f"SELECT {key}, k, n FROM {source} ORDER BY {key} {draw.choice(['', 'DESC'])} NULLS LAST, k, n LIMIT 3"
    if shape == 6:
        return over_query(draw, source + where, every, KEYS, "k, n, m, w, d, t, u, b, ts")
    return f"SELECT d, SUM(m) AS total FROM {source} GROUP BY d HAVING SUM(m) > 0.5"


@pytest.mark.parametrize("seed", range(repetitions(6, 60)))
def test_random_queries_agree_with_duckdb(seed: int) -> None:
    draw = Random(seed)
    rows = random_rows(draw, draw.choice([5, 30]))
    window = "[RANGE 6 SECONDS]"
    queries = {f"q{i}": random_query(draw, window) for i in range(8)}
    alive = Alive(rows, 6)
    for lifetime in ("dt", "nt"):
        cuts = sorted(draw.sample(range(1, len(rows)), 2))
        found = lines_of(app_text(queries), rows, lifetime, cuts)
        for name, body in queries.items():
            check_at_every_instant(name, body, found[name], rows, alive, window)
