"""Writes a batch DataFrame as parquet files in the order of its times, so that a run reads it in place and can repeat
any part of it. Executors write the files: no row passes the driver."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

_TIMES = "spark.sql.parquet.outputTimestampType"


def write_in_order(frame: DataFrame, timestamp_by: str, folder: Path) -> None:
    """Writes the rows below `folder`, which must not exist."""
    conf = frame.sparkSession.conf
    before = conf.get(_TIMES)
    conf.set(_TIMES, "TIMESTAMP_MICROS")  # the default cannot be compared without being read
    try:
        ordered = frame.orderBy(F.col(f"`{timestamp_by.replace('`', '``')}`"))
        ordered.write.parquet(f"file://{folder.absolute()}")
    finally:
        conf.set(_TIMES, before or "INT96")
