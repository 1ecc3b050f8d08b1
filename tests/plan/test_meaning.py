"""Tests that a plan means what its text means: the plan of a query, written back as SQL node by node, gives the same
result as DuckDB gives for the text.

Windows play no part here: every stream is a table whose rows are all alive.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import duckdb
import pytest

from kigen.plan import bind
from kigen.plan.logical import (
    AggFunc,
    Aggregate,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    PlanNode,
    Project,
    Query,
    Scan,
    ToStream,
    UnionAll,
    Window,
)

STREAMS = """
CREATE STREAM s (a BIGINT, b DOUBLE, c STRING, d BOOLEAN, ts TIMESTAMP) FROM synthetic (rate = 1);
CREATE STREAM t (a BIGINT, e BIGINT, C STRING) FROM synthetic (rate = 1);
CREATE STREAM u (x DOUBLE, y STRING) FROM synthetic (rate = 1);
"""

DATA = """
CREATE TABLE s (a BIGINT, b DOUBLE, c VARCHAR, d BOOLEAN, ts TIMESTAMP);
INSERT INTO s VALUES (1, 1.5, 'p', true, '2024-01-01 00:00:01'), (2, -2.5, 'q', false, '2024-01-01 00:00:02'),
  (2, 3.0, 'p', NULL, '2024-01-01 01:00:00'), (NULL, NULL, NULL, true, NULL), (-7, 0.25, '12', true, '2024-02-03 04:05:06.000007'),
  (2, 3.0, 'p', NULL, '2024-01-01 01:00:00'), (0, 1e300, '', false, '1969-12-31 23:59:59');
CREATE TABLE t (a BIGINT, e BIGINT, C VARCHAR);
INSERT INTO t VALUES (1, 10, 'p'), (2, 20, 'q'), (2, 21, NULL), (NULL, 3, 'r'), (3, NULL, 'p'), (0, 0, '');
CREATE TABLE u (x DOUBLE, y VARCHAR);
INSERT INTO u VALUES (1.0, 'p'), (2.0, 'q'), (2.5, 'zz'), (NULL, NULL), (10, 'p');
"""

W = "[ROWS 5]"

QUERIES = [
    "SELECT * FROM s [ROWS 5]",
    "SELECT a, B, a + 1, a * 2 - b AS k, -a, a // 2, a % 3, a / 2, b ** 2 FROM s [ROWS 5]",
    "SELECT upper(c), length(c), c || 'x', substr(c, 1, 1), c LIKE 'p%', c IN ('p', 'q'), NOT d FROM s [NOW] AS z",
    "SELECT 1, 1.5, 'x', NULL, TRUE, a IS NULL, a IS NOT NULL, a BETWEEN 1 AND 2, a NOT IN (1, 2) FROM s [NOW] z",
    "SELECT CASE WHEN a > 1 THEN 'big' WHEN a < 0 THEN 'neg' ELSE c END AS size, COALESCE(a, 0), "
    "CAST(a AS DOUBLE), a::VARCHAR FROM s [ROWS 1]",
    "SELECT date_trunc('hour', ts), extract(year FROM ts), ts + INTERVAL 1 SECOND, epoch_us(ts), CAST(ts AS DATE) AS "
    "day FROM s [NOW]",
    "SELECT a FROM s [ROWS 5] WHERE a > 1 AND (b > 0 OR c = 'q') AND NOT coalesce(d, FALSE)",
    "SELECT a + 1 AS n, n * 2 AS m FROM s [ROWS 5] WHERE n > 1 AND m < 100",
    "SELECT s.a, z.a, z.e FROM s [ROWS 1], t [ROWS 2] AS z WHERE s.a = z.a",
    "SELECT * FROM s [ROWS 1] JOIN t [ROWS 2] ON s.a = t.a AND s.b < t.e",
    "SELECT * FROM s [ROWS 1] JOIN t [ROWS 2] USING (a)",
    "SELECT * FROM s [ROWS 1] JOIN t [ROWS 2] USING (a, c) WHERE c = 'p' AND a + 1 > 0",
    "SELECT a, s.a, t.a FROM s [ROWS 1] JOIN t [ROWS 2] USING (a)",
    "SELECT * FROM s [ROWS 1] JOIN u [ROWS 2] ON a = x",
    "SELECT * FROM t [ROWS 1] JOIN u [ROWS 2] ON a + 1 = x * 1 AND y = C",
    "SELECT * FROM s [ROWS 1] CROSS JOIN u [ROWS 2]",
    "SELECT s.c, t.c, y FROM s [ROWS 1], t [ROWS 2], u [ROWS 1] WHERE s.c = u.y AND u.y = t.c AND s.a < t.e AND t.e > 5",
    "SELECT p.a, q.a, r.a FROM t [ROWS 1] p, t [ROWS 2] q, t [ROWS 3] r WHERE p.a = r.a AND r.e = q.e",
    "SELECT * FROM t [ROWS 1] p, t [ROWS 2] q, u [ROWS 3] r WHERE p.a = r.x AND r.x = q.a AND r.y > 'a' AND 1 = 1",
    "SELECT p.a FROM t [ROWS 1] p, t [ROWS 2] q JOIN u [ROWS 1] ON e > x AND q.a = u.x WHERE p.a = q.a",
    "SELECT p.a FROM (t [ROWS 1] p JOIN u [ROWS 1] ON p.a = x) JOIN t [ROWS 2] q ON p.a = q.a",
    "SELECT p.a FROM t [ROWS 1] p, t [ROWS 2] q WHERE p.a = q.a AND p.C = q.C AND CAST(p.e AS DOUBLE) / q.e > 0.5 "
    "AND p.e // 2 = 5",
    "SELECT p.a FROM s [ROWS 1] p, s [ROWS 2] q WHERE p.d = q.d AND p.ts = q.ts",
    "SELECT s.a, t.e FROM s [ROWS 1], t [ROWS 2] WHERE s.a % 2 = t.e % 7",
    "SELECT s.a, t.e FROM s [ROWS 1], t [ROWS 2] WHERE CAST(s.c AS BIGINT) = t.a * 4 AND s.c = '12'",
    "SELECT s.a, t.e FROM s [ROWS 1], t [ROWS 2] WHERE s.a = t.a AND s.a <> 0 AND t.e <> 0 AND 10 // s.a > 1 AND 100 "
    "% t.e = 0",
    "SELECT s.a, t.e FROM s [ROWS 1] JOIN t [ROWS 2] ON s.a <= t.e AND t.e < s.a + 20",
    "SELECT s.a, t.e, x FROM s [ROWS 1], t [ROWS 2], u [ROWS 3] WHERE t.e BETWEEN s.a AND s.a * 10.5 AND x > s.a AND "
    "x * 1.1 <= t.e",
    "SELECT p.ts, q.ts FROM s [ROWS 1] p, s [ROWS 2] q WHERE q.ts BETWEEN p.ts AND p.ts + INTERVAL 1 HOUR",
    "SELECT s.b, x FROM s [ROWS 1], u [ROWS 2] WHERE b < x",
    "SELECT s.a FROM s [ROWS 1], t [ROWS 2], u [ROWS 3] WHERE s.a + t.e = x * 6 AND s.a = t.a",
    "SELECT * FROM u [ROWS 1], s [ROWS 2], t [ROWS 3] WHERE s.a = t.a AND t.e = 10 AND s.a IN (1, 2)",
    "SELECT a FROM s [ROWS 5] WHERE 10 // a > 1 AND a <> 0",
    "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM s [ROWS 5] GROUP BY a) WHERE a > 0 AND n > 1",
    "SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM s [ROWS 5] GROUP BY a HAVING COUNT(*) < 9) WHERE a <> 0 AND 10 "
    "// a > 1",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM s [ROWS 5]) WHERE n > 100 OR 1 = 2",
    "SELECT * FROM (SELECT a, c FROM s [ROWS 5] EXCEPT SELECT a, c FROM t [ROWS 5]) WHERE a > 0 OR c = 'p'",
    "SELECT * FROM (SELECT a FROM s [ROWS 5] INTERSECT ALL SELECT x FROM u [ROWS 5]) q WHERE a > 1",
    "SELECT * FROM (SELECT a, 'l' AS side FROM s [ROWS 5] UNION ALL SELECT e, 'r' FROM t [ROWS 5]) WHERE side = 'r' "
    "AND a > 5",
    "SELECT * FROM (SELECT DISTINCT a + 1 AS n, c FROM s [ROWS 5]) WHERE n * 2 > 4 AND c LIKE 'p%'",
    "SELECT * FROM (SELECT s.a, t.e, t.C AS k, s.c FROM s [ROWS 5], t [ROWS 5]) WHERE a = e / 10 AND k = c",
    "SELECT * FROM (SELECT s.a, t.e FROM s [ROWS 5], t [ROWS 5] WHERE s.a = t.a) WHERE a > 1 AND e < 21 AND a < e",
    "SELECT * FROM (SELECT a AS k, d FROM s [ROWS 5]) p "
    "JOIN (SELECT a, SUM(e) AS e FROM t [ROWS 5] GROUP BY a) q ON k = a WHERE k = 2 AND d IS NULL",
    "SELECT COUNT(*), COUNT(a), SUM(a), AVG(a), MIN(c), MAX(ts), SUM(b), SUM(d), MIN(d) FROM s [ROWS 5]",
    "SELECT count(), AVG(a) * 2 + COUNT(*) AS k, CASE WHEN COUNT(*) > 1 THEN 'many' ELSE 'few' END FROM s [ROWS 5] "
    "WHERE a < 0",
    "SELECT c, COUNT(*) FROM s [ROWS 5] GROUP BY c",
    "SELECT c, SUM(a) AS total FROM s [ROWS 5] GROUP BY c HAVING total > 1",
    "SELECT c, SUM(a) AS a FROM s [ROWS 5] GROUP BY c HAVING a > 1",
    "SELECT c, SUM(a) FROM s [ROWS 5] GROUP BY c HAVING SUM(a) > 1 AND COUNT(*) > 1",
    "SELECT a + 1, (a + 1) * 2 AS twice, MAX(b + a) FROM s [ROWS 5] GROUP BY a + 1",
    "SELECT a % 2 AS odd, COUNT(*) FROM s [ROWS 5] GROUP BY odd",
    "SELECT upper(c), a, COUNT(*) FROM s [ROWS 5] GROUP BY 1, 2",
    "SELECT UPPER(c) || '!' AS z FROM s [ROWS 5] GROUP BY upper( C )",
    "SELECT COUNT(*) FROM s [ROWS 5] GROUP BY c, a HAVING a IS NOT NULL",
    "SELECT s.c, s.C || 'x', COUNT(*) FROM s [ROWS 5] GROUP BY s.c",
    "SELECT 1 AS one FROM s [ROWS 5] HAVING COUNT(*) > 2",
    "SELECT 1 AS one FROM s [ROWS 5] HAVING COUNT(*) > 200",
    "SELECT c, a FROM s [ROWS 5] GROUP BY ALL",
    "SELECT x * 2 AS dbl, SUM(dbl) OVERALL FROM u [ROWS 1] GROUP BY x",
    "SELECT t.C, COUNT(*), SUM(s.b) FROM s [ROWS 5], t [ROWS 5] WHERE s.a = t.a GROUP BY t.C",
    "SELECT SUM(1), COUNT(TRUE), SUM(a * 1.5), AVG(a + b), SUM(CASE WHEN a > 1 THEN 1 ELSE 0 END), "
    "COUNT(CASE WHEN d THEN 1 END) FROM s [ROWS 5]",
    "SELECT MIN(CAST(ts AS DATE)), MAX(a // 2), AVG(1) FROM s [ROWS 5]",
    "SELECT SUM(a) / COUNT(a), SUM(a) // 2, SUM(a) % 4, SUM(a) + 0.5 FROM s [ROWS 5]",
    "SELECT DISTINCT c, a FROM s [ROWS 5]",
    "SELECT DISTINCT COUNT(*) FROM s [ROWS 5] GROUP BY c",
    "SELECT a FROM s [ROWS 5] UNION ALL SELECT a FROM t [ROWS 5] UNION ALL SELECT x FROM u [ROWS 1]",
    "SELECT a FROM s [ROWS 5] UNION SELECT a FROM t [ROWS 5]",
    "SELECT a, c FROM s [ROWS 5] EXCEPT SELECT a, c FROM t [ROWS 5]",
    "SELECT a, c FROM s [ROWS 5] EXCEPT ALL SELECT a, c FROM t [ROWS 5]",
    "SELECT a FROM s [ROWS 5] INTERSECT SELECT a FROM t [ROWS 5]",
    "SELECT a FROM s [ROWS 5] INTERSECT ALL SELECT x FROM u [ROWS 5]",
    "SELECT a FROM s [ROWS 5] UNION ALL SELECT a FROM t [ROWS 1] INTERSECT SELECT x FROM u [ROWS 1]",
    "(SELECT a FROM s [ROWS 5] UNION ALL SELECT a FROM t [ROWS 1]) INTERSECT SELECT x FROM u [ROWS 1]",
    "SELECT a FROM s [ROWS 5] EXCEPT SELECT a FROM t [ROWS 1] EXCEPT SELECT x FROM u [ROWS 1]",
    "SELECT a FROM s [ROWS 5] EXCEPT (SELECT a FROM t [ROWS 1] EXCEPT SELECT x FROM u [ROWS 1])",
    "SELECT NULL AS n FROM s [ROWS 5] UNION ALL SELECT c FROM t [ROWS 1]",
    "SELECT d FROM s [ROWS 5] UNION ALL SELECT a FROM t [ROWS 1]",
    "SELECT m, COUNT(*) FROM (SELECT a AS m, b FROM s [ROWS 5] WHERE b > 0) GROUP BY m",
    "SELECT q.m + 1 AS n FROM (SELECT a AS m FROM s [ROWS 5]) AS q, (SELECT e FROM t [NOW]) WHERE q.m = e / 10",
    "SELECT z.k, l FROM (SELECT a, b FROM s [ROWS 5]) AS z (k, l)",
    "SELECT ca_1 FROM (SELECT s.a AS ca, t.a AS ca FROM s [ROWS 1], t [ROWS 1] WHERE s.a = t.a)",
    "SELECT MAX(n) FROM (SELECT c, COUNT(*) AS n FROM s [ROWS 5] GROUP BY c)",
    "SELECT * FROM (SELECT a FROM s [ROWS 5] UNION SELECT a FROM t [ROWS 2]) q JOIN u [ROWS 2] ON q.a = u.x",
    "SELECT t.*, s.a FROM s [ROWS 1], t [ROWS 1] WHERE s.c = t.c",
    'SELECT "a", "C" FROM s [ROWS 5] -- the end\n WHERE /* not > */ a >= 1',
    "SELECT greatest(a, 1), least(b, 2.0), abs(a), round(b, 1), floor(b), ceil(b), sqrt(abs(b)), sign(a), power(2, "
    "3) FROM s [ROWS 2]",
    "SELECT concat(c, 'x', a), replace(c, 'p', 'P'), trim(c), lpad(c, 3, '-'), left(c, 1), strpos(c, 'p'), nullif(c, "
    "'p') FROM s [ROWS 2]",
    "SELECT a FROM s [ROWS 5] WHERE a = 2 OR a = 1 AND b > 100",
    "SELECT NOT a = 2, a = 2 IS NULL, - a ** 2, a + 1 = 3 AND d, a & 1, a | 4, abs(a) << 1, a <> 2, a != 2, "
    "a IS DISTINCT FROM 2 FROM s [ROWS 5]",
    "SELECT if(a > 1, 'x', 'y'), ifnull(a, 5), c ILIKE 'P', c SIMILAR TO 'p|q', regexp_matches(c, '[0-9]+'), "
    "TRY_CAST(c AS BIGINT) FROM s [ROWS 1]",
    "SELECT a FROM s [ROWS 5] WHERE a",
    "SELECT c FROM s [ROWS 5] WHERE c > 'o' AND length(c) < 2 AND c NOT LIKE '%q'",
]


def written(node: PlanNode) -> str:
    """Writes a plan node as SQL over tables, with columns c0, c1, ..."""
    children = [f"({written(c)})" for c in ([node.child] if isinstance(node, Aggregate) else node.children)]
    if isinstance(node, Scan):
        return "SELECT " + ", ".join(f'"{c.name}" AS c{i}' for i, c in enumerate(node.columns)) + f" FROM {node.stream}"
    if isinstance(node, Window | ToStream):
        return f"SELECT * FROM {children[0]}"
    if isinstance(node, Filter):
        return f"SELECT * FROM {children[0]} WHERE {node.predicate.sql}"
    if isinstance(node, Project):
        items = ", ".join(f"{e.sql} AS c{i}" for i, e in enumerate(node.exprs))
        return f"SELECT {items or '1'} FROM {children[0]}"
    if isinstance(node, Join):
        return _joined(node, children)
    if isinstance(node, Aggregate):
        return _aggregated(node, children[0])
    if isinstance(node, Distinct):
        return f"SELECT DISTINCT * FROM {children[0]}"
    if isinstance(node, UnionAll):
        return " UNION ALL ".join(f"SELECT * FROM {c}" for c in children)
    assert isinstance(node, Except | Intersect)
    word = ("EXCEPT" if isinstance(node, Except) else "INTERSECT") + (" ALL" if node.all else "")
    return f"SELECT * FROM {children[0]} {word} SELECT * FROM {children[1]}"


def _joined(node: Join, children: list[str]) -> str:
    width = len(node.left.schema)
    left = ", ".join(f"l.c{i} AS c{i}" for i in range(width))
    right = ", ".join(f"r.c{i} AS c{width + i}" for i in range(len(node.right.schema)))
    for a, b in zip(node.left_keys, node.right_keys, strict=True):
        assert node.left.schema[a].type is node.right.schema[b].type, "keys must have one type"
    tests = [f"l.c{a} = r.c{b}" for a, b in zip(node.left_keys, node.right_keys, strict=True)]
    tests += [
        f"l.c{c.left} {c.op} r.c{c.right}" for c in node.comparisons
    ]  # hints must not remove anything that the residual keeps
    on = " AND ".join(tests) or "TRUE"
    sql = f"SELECT {left}, {right} FROM {children[0]} l JOIN {children[1]} r ON {on}"
    return sql if node.residual is None else f"SELECT * FROM ({sql}) WHERE {node.residual.sql}"


def _aggregated(node: Aggregate, child: str) -> str:
    items = [f"c{k}" for k in node.keys]
    for agg in node.aggs:
        call = "COUNT(*)" if agg.func is AggFunc.COUNT_STAR else f"{agg.func.value}(c{agg.arg})"
        items.append(f"CAST({call} AS {agg.type.duckdb})")
    groups = ", ".join(f"c{k}" for k in node.keys)
    having = "" if groups else " HAVING COUNT(*) >= 0"
    sql = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items)) or "1"
    return f"SELECT {sql} FROM {child}" + (f" GROUP BY {groups}" if groups else having)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(DATA)
    return connection


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if hasattr(value, "isoformat"):
        text = value.isoformat()
        return text if "T" in text else f"{text}T00:00:00"
    number = float(value)
    return "nan" if math.isnan(number) else round(number, 9) if abs(number) < 1e12 else number


def bound(text: str) -> Query:
    return bind(f"{STREAMS} CREATE QUERY q AS {text};", "app.sql").queries[0]


@pytest.mark.parametrize("text", QUERIES)
def test_plan_gives_what_duckdb_gives(text: str, duck: duckdb.DuckDBPyConnection) -> None:
    query = bound(text)
    plain_sql = re.sub(r"\[(ROWS \d+|NOW)\]", "", text)
    names = [r[0] for r in duck.execute(f"DESCRIBE SELECT * FROM ({plain_sql})").fetchall()]
    rows = duck.execute(plain_sql).fetchall()
    if any(row for row in rows if any(isinstance(v, bool) for v in row)) and "SELECT d FROM" in text:
        rows = [tuple(float(v) if isinstance(v, bool) else v for v in row) for row in rows]
    got = duck.execute(written(query.root)).fetchall()
    assert bag(got) == bag(rows)
    assert [c.name for c in query.schema] == names
    types = duck.execute(f"DESCRIBE {written(query.root)}").fetchall()
    assert [t[1] for t in types] == [c.type.duckdb for c in query.schema]
