"""Defines a query for each join, aggregate, order and window that the paper does not have, and finds queries by name.

STRv has pseudo-random values in `cb`; four tuples in a row have one `cc`, so a window of sessions that end after W
milliseconds of silence holds W tuples. STRl is STRv with an instant in `cc` until which a tuple lives: W milliseconds
ahead on average, and not in order. The joins pair every tuple of STRb0 with one of STRb1, half a millisecond later, as
the paper's join does. ASOF joins form all pairs of a key, so this one has a key of its own for each pair.
"""

from __future__ import annotations

from kigen_lab.bench.lifetimes.queries import QUERIES, PaperQuery

NOT_COMPARED = "not compared with plain Structured Streaming"
_BOTH = ("range", "rows")
_TOTALS = "SELECT ca, COUNT(*) AS n, SUM(cb) AS x FROM"
_PAIRED = "strb0 {w} %s JOIN strb1 {w} ON strb0.ca = strb1.ca"


def _newer(name: str, title: str, streams: tuple[str, ...], cql: str, *kinds: str) -> PaperQuery:
    return PaperQuery(name, title, streams, cql, NOT_COMPARED, True, kinds or ("range",), True)


def _join(name: str, title: str, *kinds: str) -> PaperQuery:
    return _newer(name, title, ("strb0", "strb1"), f"SELECT * FROM {_PAIRED % title}", *kinds)


def _grouped(name: str, call: str, *kinds: str) -> PaperQuery:
    return _newer(name, call, ("strv",), f"SELECT ca, {call} AS x FROM strv {{w}} GROUP BY ca", *kinds)


NEWER = (
    _join("left_join", "LEFT", *_BOTH),
    _join("full_join", "FULL"),
    _join("semi_join", "SEMI"),
    _join("anti_join", "ANTI"),
    _newer(
        "asof_join",
        "ASOF",
        ("strb0", "strb1"),
        "SELECT * FROM strb1 {w} ASOF JOIN strb0 {w} ON strb1.ca = strb0.ca AND strb1.ts >= strb0.ts",
    ),
    _grouped("count_distinct", "COUNT(DISTINCT cb)", *_BOTH),
    _grouped("filtered", "SUM(cb) FILTER (WHERE cb % 2 = 0)"),
    _grouped("stddev", "STDDEV(cb)"),
    _grouped("median", "MEDIAN(cb)"),
    _grouped("arg_max", "arg_max(cc, cb)"),
    _grouped("last", "last(cb)"),
    _newer(
        "rollup",
        "ROLLUP",
        ("strv",),
        "SELECT ca, cb % 2 AS odd, COUNT(*) AS n FROM strv {w} GROUP BY ROLLUP (ca, cb % 2)",
    ),
    _newer("top10", "ORDER BY LIMIT 10", ("strv",), "SELECT * FROM strv {w} ORDER BY cb DESC LIMIT 10", *_BOTH),
    _newer("limit_by", "LIMIT 3 BY", ("strv",), "SELECT * FROM strv {w} ORDER BY cb DESC LIMIT 3 BY (ca)"),
    _newer(
        "session", "SESSION", ("strv",), "SELECT ca, COUNT(*) AS n, SUM(cb) AS x FROM strv {w} GROUP BY ca", "session"
    ),
    _newer("until", "UNTIL", ("strl",), "SELECT ca, COUNT(*) AS n, SUM(cb) AS x FROM strl {w} GROUP BY ca", "until"),
)
_OVER = "SELECT *, %s OVER (PARTITION BY ca ORDER BY %s) AS x FROM strv {w}"
# Measured only if they are named: in large windows, those with OVER take as long as their results, or longer.
NAMED = (
    _grouped("max", "MAX(cb)", *_BOTH),
    _grouped("first", "first(cb)"),
    _newer("rank", "RANK OVER", ("strv",), _OVER % ("RANK()", "cb")),
    _newer("lag", "LAG OVER", ("strv",), _OVER % ("LAG(cb)", "ts")),
)
PARTS = {"paper": QUERIES, "newer": NEWER, "all": (*QUERIES, *NEWER)}
BY_NAME = {query.name: query for query in (*PARTS["all"], *NAMED)}
