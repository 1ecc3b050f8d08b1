"""Lists, structs, intervals, JSON paths and time zones agree with DuckDB at every instant."""

from __future__ import annotations

from random import Random

from typed_rows import Alive, app_text, check_at_every_instant, lines_of, random_rows

COLUMNS = {"k": "STRING", "n": "BIGINT", "d": "DATE", "t": "TIME", "l": "BIGINT[]", "p": "STRUCT(x BIGINT, y STRING)",
           "ts": "TIMESTAMP"}  # fmt: skip
WINDOW = "[RANGE 6 SECONDS]"
QUERIES = {
    "fields": f"SELECT p.x AS x, s.p.y AS y, l[1] AS head, l[-1] AS tail, len(l) AS n, p AS whole FROM s {WINDOW}",
    "chosen": f"SELECT k, p FROM s {WINDOW} WHERE p.y = 'a' OR l[1] = 3",
    "by_field": f"SELECT p.x AS x, COUNT(*) AS n, MAX(l[1]) AS top FROM s {WINDOW} GROUP BY p.x",
    "by_list": f"SELECT l, COUNT(DISTINCT p) AS n FROM s {WINDOW} GROUP BY l",
    "by_struct": f"SELECT p, SUM(n) AS total FROM s {WINDOW} GROUP BY p",
    "joined": f"SELECT a.k, b.l FROM s {WINDOW} AS a JOIN s {WINDOW} AS b ON a.p.x = b.l[1]",
    "by_lists": f"SELECT a.k, b.n FROM s {WINDOW} AS a JOIN s {WINDOW} AS b ON a.l = b.l",
    "different": f"SELECT DISTINCT l, p FROM s {WINDOW}",
    "made": f"SELECT [n, 1] AS l, {{'a': n, 'b': k}} AS p, list_contains(l, 1) AS has FROM s {WINDOW}",
    "later": f"SELECT d + INTERVAL 1 MONTH AS m, ts - INTERVAL 36 HOURS AS h, t + INTERVAL 2 HOURS AS t2 FROM s {WINDOW}",
    "spans": f"SELECT date_diff('day', d, CAST(ts AS DATE)) AS days, ts - CAST(d AS TIMESTAMP) > INTERVAL 1 DAY AS old FROM s {WINDOW}",
    "zones": f"SELECT timezone('Asia/Tokyo', timezone('UTC', ts)) AS there, hour(timezone('Europe/Berlin', timezone('UTC', ts))) AS h FROM s {WINDOW}",
    "before": f"SELECT k, LAG(l) OVER (ORDER BY ts, k, n, d, t, l, p) AS l1, LEAD(p, 2, p) OVER (ORDER BY ts, k, n, d, t, l, p) AS p2 FROM s {WINDOW}",
    "numbered": f"SELECT n, ROW_NUMBER() OVER (PARTITION BY p ORDER BY l, k, n, d, t, ts) AS r, RANK() OVER (PARTITION BY l ORDER BY p DESC) AS q FROM s {WINDOW}",
    "lists": f"SELECT n, list(p ORDER BY k, n, d, t, l, p, ts) AS ps, list(l ORDER BY p DESC, k, n, d, t, l, ts) AS ls FROM s {WINDOW} GROUP BY n",
    "listed": f"SELECT list(d ORDER BY ts, k, n, d) FILTER (WHERE n > 0) AS ds, array_agg(t ORDER BY t DESC) AS times FROM s {WINDOW}",
    "elements": f"SELECT a.k, u.x AS x, a.l AS l FROM s {WINDOW} AS a, UNNEST(a.l) AS u(x) WHERE a.n > 0 OR u.x > 1",
    "counted": f"SELECT x, COUNT(*) AS n, SUM(a.n) AS total FROM s {WINDOW} AS a CROSS JOIN UNNEST(l) AS x GROUP BY x",
    "element_of": f"SELECT a.k, b.n, u.x FROM s {WINDOW} AS a, s {WINDOW} AS b, UNNEST(a.l) AS u(x) WHERE u.x = b.n",
    "or_none": f"SELECT a.k, x, b.d FROM s {WINDOW} AS a, UNNEST(a.l) AS u(x) LEFT JOIN s {WINDOW} AS b ON x = b.n AND b.d IS NOT NULL",
    "structs": f"SELECT q.x AS x, q.y AS y, a.n FROM s {WINDOW} AS a JOIN UNNEST([a.p, NULL]) AS u(q) ON q.x IS NULL OR a.n > 0",
    "nested": f"SELECT a.k, v.y FROM s {WINDOW} AS a, UNNEST([a.l, [a.n]]) AS u(x), UNNEST(u.x) AS v(y)",
    "grouped": f"SELECT k, x FROM (SELECT k, list(n ORDER BY n) AS ns FROM s {WINDOW} GROUP BY k) AS g, UNNEST(g.ns) AS u(x)",
    "whole": f"SELECT COUNT(*) AS n, MAX(x) AS top FROM s {WINDOW} AS a, UNNEST(a.l) AS u(x)",
    "exists": f"SELECT a.k FROM s {WINDOW} AS a WHERE EXISTS (SELECT 1 FROM s {WINDOW} AS b, UNNEST(b.l) AS u(x) WHERE u.x = a.n)",
    "paths": f"SELECT k ->> '$.a' AS a, CAST(json_extract(k, '$.b[0]') AS BIGINT) AS b FROM s {WINDOW}",
}  # fmt: skip


def test_nested_values_agree_with_duckdb() -> None:
    draw = Random(5)
    drawn = random_rows(draw, 40, COLUMNS | {"k": "JSON"})
    alive = Alive(drawn, 6, COLUMNS)
    for lifetime, cuts in (("dt", (7, 20)), ("nt", (15,))):
        found = lines_of(app_text(QUERIES, COLUMNS), drawn, lifetime, cuts)
        for name, body in QUERIES.items():
            check_at_every_instant(name, body, found[name], drawn, alive, WINDOW)
