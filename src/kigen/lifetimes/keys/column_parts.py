"""Takes rows out of columns that lie in several parts, at the cost of these rows.

Arrow's own `take` on a chunked column puts all chunks together first, so a hundred rows of a million cost as much as
the million. Here each part gives its own rows, and one more `take` puts them in order. Arrow's is faster if the parts
are small, or most rows are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kigen.lifetimes.blocks import Ints, concat_columns, take_columns

_SMALL = 1 << 13  # rows of all parts
_MOST = 2  # of so many rows, one is wanted


def take_rows(parts: Sequence[pa.RecordBatch], row: Ints) -> pa.RecordBatch:
    """Returns rows by their number over all parts, of which there is at least one."""
    if len(parts) == 1:
        return take_columns(parts[0], row)
    ends = np.cumsum([part.num_rows for part in parts])
    if int(ends[-1]) <= max(_SMALL, _MOST * len(row)) and len(row):
        table = pa.Table.from_batches(list(parts)).take(pa.array(row)).combine_chunks()
        return table.to_batches()[0]
    owner = np.searchsorted(ends, row, side="right")
    taken, places = [], []
    for i in np.unique(owner).tolist():
        mine = np.flatnonzero(owner == i)
        taken.append(take_columns(parts[i], row[mine] - (ends[i] - parts[i].num_rows)))
        places.append(mine)
    if len(taken) <= 1:
        return taken[0] if taken else parts[0].slice(0, 0)
    together = concat_columns(taken)
    if bool((owner[1:] >= owner[:-1]).all()):
        return together
    back = np.empty(len(row), dtype=np.int64)
    back[np.concatenate(places)] = np.arange(len(row))
    return take_columns(together, back)
