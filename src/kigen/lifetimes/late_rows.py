"""Keeps the late tuples of a stream with `LATE INTO` until the step that dropped them has given them out.

Cost: nothing for streams without the clause. Late tuples are few; they are copied.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, Mask
from kigen.plan.logical import SourceStream

PLACE = "_place"  # column of an input table: the range that each row came from
BEHIND = "_behind"  # column of late tuples: microseconds behind the newest timestamp before them


class LateRows:
    """Late tuples of one stream, since they were last taken."""

    def __init__(self, stream: SourceStream) -> None:
        self._wanted, self._names = stream.late_into is not None, [f"c{i}" for i in range(len(stream.schema))]
        self._tables: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch, late: Mask, newest: Ints | int) -> None:
        """Adds the late rows of an input. `newest`: the greatest timestamp before each row, or before all."""
        if not self._wanted:
            return
        behind = newest - np.asarray(batch.column("_ts").to_numpy(zero_copy_only=False), np.int64)
        places = batch.column(PLACE) if PLACE in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        columns = [*(batch.column(name) for name in self._names), batch.column("_ts"), places.cast(pa.string())]
        names = [*self._names, "_ts", PLACE, BEHIND]
        self._tables.append(pa.table([*columns, pa.array(behind)], names=names).filter(pa.array(late)))

    def take(self) -> pa.Table | None:
        """Returns the late tuples and forgets them; None if there are none."""
        tables, self._tables = self._tables, []
        return pa.concat_tables(tables) if tables else None
