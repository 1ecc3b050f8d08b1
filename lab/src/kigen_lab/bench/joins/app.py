"""Defines the data and the queries of `kigen bench joins`.

A bid arrives every 100 ms. An auction opens every 16 bids. Every 64th auction is hot until the next hot one opens, so
it gets about 500 bids: half of all. The other bids go to one of the last hundred auctions. A side relation arrives at
one instant before all bids. The data do not depend on how the stream is cut: 200,000 bids are the first of 2,000,000.
Each query exists twice with the same meaning: as a continuous query, and as plain SQL over what is alive at an instant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from kigen_lab.bench.lifetimes.data import START_US
from kigen_lab.bench.parquet_folder import parquet_folder

STEP_US = 100_000
SIDE_ROWS = 10_000
FILE_ROWS = 100_000
BIDS = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, note STRING, ts TIMESTAMP"
SIDE = "key BIGINT, label STRING, ts TIMESTAMP"
_CHANNELS = ("web", "phone", "agent", "hall")
_PIECE = 10_000  # bids that are drawn together
_OPENING, _HOT_EVERY, _RECENT = 16, 64, 100


@dataclass(frozen=True)
class JoinQuery:
    """One query, as CQL and as SQL."""

    name: str  # in the tables
    query: str  # in the app
    columns: tuple[tuple[str, str], ...]  # of the result, with types of DuckDB
    cql: str
    sql: str  # over bids_now, bids_all and side_all: the content of the windows at an instant
    streams: tuple[str, ...] = ("bids",)

    def app_text(self, paths: dict[str, str]) -> str:
        declared = {"bids": BIDS, "side": SIDE}
        streams = [
            f"CREATE STREAM {s} ({declared[s]}) TIMESTAMP BY ts FROM parquet (path = '{paths.get(s, s)}');"
            for s in self.streams
        ]
        return "\n".join([*streams, f"CREATE QUERY {self.query} AS {self.cql};\n"])


def _computed(bids: str, side: str) -> str:
    pairs = f"{bids} AS b JOIN {side} AS s ON b.auction % {SIDE_ROWS} = s.key"
    return f"SELECT b.auction, b.bidder, b.price, s.label FROM {pairs}"


def _nested(bids: str, _: str) -> str:
    day = "strftime(ts, '%Y-%m-%d')"
    bidders = f"SELECT {day} AS day, bidder, COUNT(*) AS n, SUM(price) AS paid FROM {bids} GROUP BY {day}, bidder"
    auctions = (
        f"SELECT {day} AS day, auction, COUNT(*) AS n, COUNT(CASE WHEN price >= 1000000 THEN 1 END) AS dear "
        f"FROM {bids} "
    )
    auctions += f"GROUP BY {day}, auction"
    left = f"SELECT day, SUM(n) AS bids, COUNT(*) AS bidders, AVG(paid) AS mean_paid FROM ({bidders}) AS x GROUP BY day"
    right = (
        f"SELECT day, COUNT(*) AS auctions, AVG(n) AS mean_bids, SUM(dear) AS dear FROM ({auctions}) AS y GROUP BY day"
    )
    chosen = "b.day, b.bids, b.bidders, b.mean_paid, a.auctions, a.mean_bids, a.dear"
    return f"SELECT {chosen} FROM ({left}) AS b JOIN ({right}) AS a ON a.day = b.day"


def _ranked(bids: str, _: str) -> str:
    columns = "a.auction, a.bidder, a.price, a.ts"
    pairs = f"{bids} AS a JOIN {bids} AS b ON a.auction = b.auction AND b.price >= a.price"
    return f"SELECT {columns}, COUNT(*) AS place FROM {pairs} GROUP BY {columns} HAVING COUNT(*) <= 10"


def _query(
    name: str,
    query: str,
    columns: str,
    make: Callable[[str, str], str],
    window: str = "UNBOUNDED",
    streams: tuple[str, ...] = ("bids",),
) -> JoinQuery:
    typed = [column.split() for column in columns.split(", ")]
    kept = "bids_now" if window == "NOW" else "bids_all"
    cql = make(f"bids [{window}]", "side [UNBOUNDED]")
    return JoinQuery(name, query, tuple((n, t) for n, t in typed), cql, make(kept, "side_all"), streams)


QUERIES = (
    _query(
        "computed key",
        "computed",
        "auction BIGINT, bidder BIGINT, price BIGINT, label VARCHAR",
        _computed,
        "NOW",
        ("bids", "side"),
    ),
    _query(
        "nested aggregates",
        "nested",
        "day VARCHAR, bids BIGINT, bidders BIGINT, mean_paid DOUBLE, auctions BIGINT, mean_bids DOUBLE, dear BIGINT",
        _nested,
    ),
    _query("ranked", "ranked", "auction BIGINT, bidder BIGINT, price BIGINT, ts TIMESTAMP, place BIGINT", _ranked),
)
BY_QUERY = {query.query: query for query in QUERIES}


# --- data -------------------------------------------------------------------------------------------------------------


def bid_time(number: int) -> int:
    return START_US + (number + 1) * STEP_US


def bids_table(first: int, stop: int) -> pa.Table:
    """Returns the bids `first` to `stop`."""
    pieces = [_piece(number) for number in range(first // _PIECE, -(-stop // _PIECE))]
    table = pa.concat_tables(pieces) if pieces else _piece(0).slice(0, 0)
    return table.slice(first % _PIECE, stop - first).combine_chunks()


def _piece(number: int) -> pa.Table:
    rng = np.random.default_rng((number, 14))
    n = np.arange(number * _PIECE, (number + 1) * _PIECE, dtype=np.int64)
    newest = n // _OPENING
    auction = np.maximum(newest - rng.integers(0, _RECENT, _PIECE), 0)
    hot = rng.random(_PIECE) < 0.5
    auction[hot] = (newest // _HOT_EVERY * _HOT_EVERY)[hot]
    bidder = n // 8 + rng.integers(0, 1_000, _PIECE)
    price = (100 * 10 ** rng.uniform(0, 5, _PIECE)).astype(np.int64)
    channel = pa.array(_CHANNELS).take(pa.array(rng.integers(0, len(_CHANNELS), _PIECE)))
    notes = pa.array([f"a note that no query reads, number {i:04d}" for i in range(1_000)])
    ts = pa.array(bid_time(0) + n * STEP_US, pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns = [pa.array(auction), pa.array(bidder), pa.array(price), channel, notes.take(pa.array(n % 1_000)), ts]
    return pa.table(columns, names=["auction", "bidder", "price", "channel", "note", "ts"])


def side_table(rows: int = SIDE_ROWS) -> pa.Table:
    """Returns the side relation: all rows at one instant before the first bid."""
    ts = pa.array(np.full(rows, START_US), pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        [pa.array(np.arange(rows)), pa.array([f"label {i}" for i in range(rows)]), ts], names=["key", "label", "ts"]
    )


def kernel_table(table: pa.Table) -> pa.Table:
    """Returns a table as connectors give it: positional names, and the timestamp again as `_ts`."""
    ts = table["ts"].cast(pa.int64())
    columns = [ts.cast(pa.timestamp("us")) if name == "ts" else table[name] for name in table.column_names]
    return pa.table([*columns, ts], names=[*(f"c{i}" for i in range(len(columns))), "_ts"])


def make_data(cache: Path, bids: int) -> dict[str, str]:
    """Returns the folders of both streams, and makes those that do not exist."""
    return {
        "bids": parquet_folder(cache / f"joins-bids-{bids}", bids, FILE_ROWS, bids_table),
        "side": parquet_folder(
            cache / f"joins-side-{SIDE_ROWS}",
            SIDE_ROWS,
            SIDE_ROWS,
            lambda first, stop: side_table().slice(first, stop - first),
        ),
    }
