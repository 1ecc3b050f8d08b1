"""Applies `AHEAD n SECONDS`: a row dated too far in the future is a bad row, because it would make later rows late.

The limit depends on recorded values only, so that a replay decides the same. In a file it counts from the start of the
first run on the checkpoint, which the offsets record; in a live stream it counts from the arrival of the row. Cost: one
comparison per row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.bad_rows import KEPT, shown
from kigen.connectors.source_base import BadRow, InputError, LiveSource, Rows, Source
from kigen.plan.logical import LINK, SourceStream

LIVE_US = 3_600_000_000  # for a live stream without AHEAD
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Ahead:
    """The latest timestamp that a row of a file may have; None: no limit."""

    latest_us: int | None = None

    @staticmethod
    def of_file(stream: SourceStream, started_us: int | None) -> Ahead:
        return Ahead() if stream.ahead_us is None or started_us is None else Ahead(started_us + stream.ahead_us)

    def any_beyond(self, times: pa.ChunkedArray) -> bool:
        if self.latest_us is None:
            return False
        last = pc.max(times.cast(pa.int64())).as_py()
        return last is not None and last > self.latest_us

    def beyond(self, times: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """Returns the indices of the rows beyond the limit; NULL is never beyond it."""
        if self.latest_us is None:
            return _NONE
        far = pc.fill_null(pc.greater(times.cast(pa.int64()), self.latest_us), False)
        return np.flatnonzero(np.asarray(far))

    def message(self, text: str) -> str:
        assert self.latest_us is not None
        return f"{shown(text)} is too far ahead: AHEAD allows rows of this run up to {_iso(self.latest_us)}"


NO_LIMIT = Ahead()


def without_far(rows: Rows, stream: SourceStream, source: Source) -> Rows:
    """Returns the rows of a live stream without those dated too far ahead of their arrival; raises InputError unless
    bad rows are skipped."""
    if (
        stream.timestamp is None
        or stream.source.name == LINK
        or not isinstance(source, LiveSource)
        or rows.arrivals_us is None
    ):
        return rows
    ahead_us = LIVE_US if stream.ahead_us is None else stream.ahead_us
    times = np.asarray(rows.table.column("_ts"), np.int64)
    far = times > rows.arrivals_us + ahead_us
    if not far.any():
        return rows
    places = np.flatnonzero(far)[:KEPT].tolist()
    messages = [
        f"stream '{stream.name}': a row dated {_iso(int(times[at]))} arrived at {_iso(int(rows.arrivals_us[at]))}: "
        f"more than AHEAD ({ahead_us / 1e6:g} s) in the future"
        for at in places
    ]
    if not stream.on_error_skip:
        raise InputError(f"{messages[0]}; write ON ERROR SKIP to leave such rows out, or a larger AHEAD")
    errors = [*rows.errors, *messages][:KEPT]
    kept = rows.table.filter(pa.array(~far))
    bad = rows.bad if stream.error_into is None else rows.bad + _far_rows(rows.table.filter(pa.array(far)), stream)
    skipped = rows.skipped + int(far.sum())
    return replace(rows, table=kept, arrivals_us=rows.arrivals_us[~far], skipped=skipped, errors=errors, bad=bad)


def _far_rows(far: pa.Table, stream: SourceStream) -> tuple[BadRow, ...]:
    names = [column.name for column in stream.schema]
    columns = [far.column(f"c{i}").cast(pa.string()).to_pylist() for i in range(len(names))]
    reason = "dated too far ahead of its arrival: see AHEAD"
    return tuple(
        BadRow(json.dumps(dict(zip(names, row, strict=True))), f"stream '{stream.name}'", reason)
        for row in zip(*columns, strict=True)
    )


def _iso(us: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{us} us since 1970"
