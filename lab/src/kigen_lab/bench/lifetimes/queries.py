"""Defines the six queries of the lifetime paper with a window of W tuples: W for STRu, W / 2 for each of STRb0 and
STRb1. The queries over newer constructs (kigen_lab.bench.lifetimes.newer_queries) have windows of the same sizes.

There is a tuple per millisecond, so a RANGE window of W milliseconds holds W tuples, and RANGE and ROWS of one size do
the same work. EXCEPT names its columns: with the timestamp among them, as in `*`, the two streams would have no tuple
in common.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("range", "rows")
WINDOWS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)

_COLUMNS = {
    "stru": "ca STRING, cb BIGINT, cc STRING, ts TIMESTAMP",
    "strb0": "ca BIGINT, cb STRING, cc BIGINT, ts TIMESTAMP",
    "strb1": "ca BIGINT, cb STRING, cc BIGINT, ts TIMESTAMP",
    "strv": "ca STRING, cb BIGINT, cc BIGINT, ts TIMESTAMP",
    "strl": "ca STRING, cb BIGINT, cc TIMESTAMP, ts TIMESTAMP",
}


@dataclass(frozen=True)
class PaperQuery:
    """One of the six queries, or one over newer constructs."""

    name: str
    title: str
    streams: tuple[str, ...]
    cql: str  # {w} stands for the window
    plain_range: str | None = None  # why plain Structured Streaming cannot run it with a RANGE window
    stateful: bool = False  # slow in plain Structured Streaming, which gets fewer tuples
    kinds: tuple[str, ...] = KINDS  # kinds of windows with which it is measured
    newer: bool = False  # not of the paper: measured with fewer tuples

    def window_size(self, window: int) -> int:
        """Returns the tuples of the window of each stream."""
        return max(1, window // len(self.streams))

    def why_not_plain(self, kind: str) -> str | None:
        """Returns why plain Structured Streaming cannot run the query with such windows, or None if it can."""
        if kind == "rows" and not self.newer:
            return "no row windows over a stream in Structured Streaming"
        return self.plain_range


QUERIES = (
    PaperQuery("selection", "selection", ("stru",), "SELECT * FROM stru {w} WHERE cb > 3"),
    PaperQuery("projection", "projection", ("stru",), "SELECT ca, cb FROM stru {w}"),
    PaperQuery("union", "union", ("strb0", "strb1"), "SELECT * FROM strb0 {w} UNION ALL SELECT * FROM strb1 {w}"),
    PaperQuery(
        "join",
        "join",
        ("strb0", "strb1"),
        "SELECT * FROM strb0 {w}, strb1 {w} WHERE strb0.ca = strb1.ca",
        stateful=True,
    ),
    PaperQuery(
        "except",
        "except",
        ("strb0", "strb1"),
        "SELECT ca, cb, cc FROM strb0 {w} EXCEPT SELECT ca, cb, cc FROM strb1 {w}",
        plain_range="no EXCEPT between streams in Structured Streaming",
        stateful=True,
    ),
    PaperQuery("average", "average", ("stru",), "SELECT AVG(cb) AS mean FROM stru {w} GROUP BY ca, cc", stateful=True),
)
_CLAUSES = {
    "range": "[RANGE {size} MILLISECONDS]",
    "rows": "[ROWS {size}]",
    "session": "[PARTITION BY cc SESSION {size} MILLISECONDS]",
    "until": "[UNTIL cc]",
}


def window_clause(query: PaperQuery, kind: str, window: int) -> str:
    return _CLAUSES[kind].format(size=query.window_size(window))


def app_text(query: PaperQuery, kind: str, window: int, paths: dict[str, str], into: str | None) -> str:
    """Returns the app file.

    `paths` are the parquet folders of the streams. `into` is the folder for results; None means no sink, for the
    kernel.
    """
    streams = [
        f"CREATE STREAM {name} ({_COLUMNS[name]}) TIMESTAMP BY ts FROM parquet (path = '{paths.get(name, name)}');"
        for name in query.streams
    ]
    sink = "" if into is None else f"\n  INTO parquet (path = '{into}')"
    body = query.cql.format(w=window_clause(query, kind, window))
    return "\n".join([*streams, f"CREATE QUERY {query_name(query)} AS\n  {body}{sink};\n"])


def query_name(query: PaperQuery) -> str:
    """Returns the query's name in the app file: some names alone are words of the language."""
    return f"q_{query.name}"
