"""Writes a stream as a folder of parquet files, once: later runs use the folder again.

Invariant: a folder appears complete, by a rename, even if two benchmarks make it at the same time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_folder(folder: Path, tuples: int, file_rows: int, table: Callable[[int, int], pa.Table]) -> str:
    """Returns the path of the folder, and makes it if it does not exist.

    `table` returns the tuples `first` to `stop` of the stream.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        scratch = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for part, first in enumerate(range(0, tuples, file_rows)):
            rows = table(first, min(first + file_rows, tuples))
            pq.write_table(rows, scratch / f"part-{part:05d}.parquet", row_group_size=file_rows)
        scratch.rename(folder)
    return str(folder)
