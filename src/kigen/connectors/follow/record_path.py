"""Keeps the path of a followed stream on the driver: which offset is which record of which file, and when it came.

Invariant: offsets are dense and in the order of reading; nothing here does I/O. Cost: two integers per record that a
task has not read yet; what all tasks have passed is forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from kigen.connectors.follow.file_identity import FileId
from kigen.connectors.follow.visits import Place
from kigen.connectors.source_base import Position, Times
from kigen.connectors.text_files import Offsets


@dataclass(frozen=True)
class Stretch:
    """Records of one file that were found together."""

    first: int  # offset of the first record
    rows: int
    arrived_us: int
    visit: int
    file: FileId
    start: Place
    ends: Offsets | None = None  # bytes after each record; None: each record counts 1 (rows of parquet)
    lines: Offsets | None = None  # physical lines after each record; None: one line each

    @property
    def end(self) -> int:
        return self.first + self.rows

    def place(self, index: int) -> Place:
        """Returns where the record with this offset begins. The offset after the last record is the end."""
        count = index - self.first
        if count == 0:
            return self.start
        at = self.start.at + count if self.ends is None else int(self.ends[count - 1])
        line = self.start.line + count if self.lines is None else int(self.lines[count - 1])
        return Place(at, line)


class RecordPath:
    """The records from `first` on."""

    def __init__(self, first: int, file: FileId | None = None, visit: int = 0, place: Place | None = None) -> None:
        self._stretches: list[Stretch] = []
        self._start = (first, visit, file, place)  # where the path begins, as long as it has no records
        self.end = first

    @property
    def last_arrived_us(self) -> int | None:
        """Returns when the last record came; None if there is none."""
        return self._stretches[-1].arrived_us if self._stretches else None

    def add(self, stretch: Stretch) -> None:
        assert stretch.first == self.end, f"the path ends at {self.end}, the records begin at {stretch.first}"
        if stretch.rows:
            self._stretches.append(stretch)
            self.end = stretch.end

    def arrived_by(self, now_us: int) -> int:
        at = bisect_right(self._stretches, now_us, key=lambda s: s.arrived_us)
        return self._stretches[at - 1].end if at else self._start[0]

    def arrivals_us(self, first: int, end: int) -> Times:
        parts = [(s.arrived_us, min(s.end, end) - max(s.first, first)) for s in self._over(first, end)]
        return np.repeat(np.array([us for us, _ in parts], np.int64), [rows for _, rows in parts])

    def position(self, index: int) -> Position | None:
        """Returns where reading continues at this offset; None if the path has not begun."""
        stretch = next(iter(self._over(index, index + 1)), None)
        if stretch is None and self._stretches and self._stretches[-1].end == index:
            stretch = self._stretches[-1]
        if stretch is not None:
            place, visit, file = stretch.place(index), stretch.visit, stretch.file
        else:
            first, visit, start_file, start = self._start
            if start_file is None or start is None:
                return None
            assert index == first, f"offset {index} is not on the path from {first} to {self.end}"
            place, file = start, start_file
        return {"index": index, "visit": visit, "id": file.to_json(), "at": place.at, "line": place.line}

    def parts(self, first: int, end: int) -> list[dict[str, Any]]:
        """Returns the stretches of files that hold these records, as JSON. `arrived` has records, arrival time and end
        of each group that was found together."""
        parts: list[dict[str, Any]] = []
        for s in self._over(first, end):
            low, high = max(s.first, first), min(s.end, end)
            start, stop = s.place(low), s.place(high)
            group = [high - low, s.arrived_us, stop.at]
            last = parts[-1] if parts else None
            if last is not None and (last["visit"], last["to"]) == (s.visit, start.at):
                last["file"], last["to"] = s.file.to_json(), stop.at
                last["arrived"].append(group)
            else:
                part = {"visit": s.visit, "file": s.file.to_json(), "from": start.at, "to": stop.at}
                parts.append({**part, "line": start.line, "arrived": [group]})
        return parts

    def forget_before(self, index: int) -> None:
        """Keeps the stretch before `index`, too: the position there may be asked for again."""
        at = bisect_right(self._stretches, index, key=lambda s: s.end) - 1
        if at > 0:
            del self._stretches[:at]
            self._start = (self._stretches[0].first, 0, None, None)

    def _over(self, first: int, end: int) -> list[Stretch]:
        low = bisect_right(self._stretches, first, key=lambda s: s.end)
        high = bisect_right(self._stretches, end - 1, key=lambda s: s.first)
        return self._stretches[low:high]
