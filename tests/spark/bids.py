"""An app whose state only grows: it joins bids in an UNBOUNDED window with auctions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

APP = """
CREATE STREAM bid (auction BIGINT, bidder BIGINT, note STRING, ts TIMESTAMP) TIMESTAMP BY ts FROM parquet (path = 'bid.parquet');
CREATE STREAM auction (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM parquet (path = 'auction.parquet');
CREATE QUERY matched AS SELECT bidder, note FROM bid [UNBOUNDED], auction [NOW] WHERE bid.auction = auction.id;
"""
GROUP = 100_000


def write_bids(directory: Path, count: int) -> Path:
    """Writes the app and its data. Rows are written in groups, so that this process stays small."""
    columns = pa.schema(
        [("auction", pa.int64()), ("bidder", pa.int64()), ("note", pa.string()), ("ts", pa.timestamp("us"))]
    )
    with pq.ParquetWriter(directory / "bid.parquet", columns) as writer:
        for first in range(0, count, GROUP):
            number = np.arange(first, min(count, first + GROUP))
            notes = pc.binary_join_element_wise("note number", pa.array(number).cast(pa.string()), " ")
            writer.write_table(
                pa.table(
                    [number % 50_000, number * 7919, notes, pa.array(number * 1000, pa.timestamp("us"))], schema=columns
                )
            )
    times = np.arange(count // 100)
    pq.write_table(
        pa.table({"id": times % 50_000, "ts": pa.array(times * 100_000, pa.timestamp("us"))}),
        directory / "auction.parquet",
    )
    app = directory / "bids.cql"
    app.write_text(APP, encoding="utf-8")
    return app
