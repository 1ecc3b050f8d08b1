"""Finds the complete records of a followed file: lines of text, records of csv with quoted line ends, rows of parquet.

Invariant: a record that is not written whole yet is not found. A csv file has no records before its header is whole, a
parquet file none before its footer is. Cost: text is read once and searched for line ends; of parquet only the footer
is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.csv.records import record_ends
from kigen.connectors.csv.rows import BOM, header_of
from kigen.connectors.follow.open_file import OpenFile
from kigen.connectors.follow.visits import Place
from kigen.connectors.source_base import InputError
from kigen.connectors.text_files import LONGEST_RECORD, Offsets
from kigen.plan.logical import SourceStream

PORTION = 4 << 20  # bytes of text that are searched at once
_FOOTER = b"PAR1"
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Found:
    """Records after a place. `ends` and `lines` as in `Stretch`."""

    rows: int
    end: Place
    ends: Offsets | None = None
    lines: Offsets | None = None


class RecordFinder(ABC):
    """Finds the records of one format."""

    @abstractmethod
    def begin(self, file: OpenFile) -> Place | None:
        """Returns where the records begin; None if that is not written yet. Raises InputError if there can be none."""

    @abstractmethod
    def find(self, file: OpenFile, start: Place, limit: int | None, complete: bool) -> Found:
        """Returns some of the records from `start`. Those before `limit` are known to be whole. `complete`: the last
        line of the file is a record even without a line end."""

    def known_bytes(self, file: OpenFile, end: Place) -> int:
        """Returns how many bytes of the file will not change any more when its records up to `end` are read."""
        return end.at

    def needed_bytes(self, end: Place) -> int:
        """Returns how many bytes a file has at least that holds the records up to `end`."""
        return end.at


class TextFinder(RecordFinder):
    """Lines of text. A csv file begins with its header: `header` is the stream whose columns it names."""

    def __init__(self, header: SourceStream | None) -> None:
        self._header = header

    def begin(self, file: OpenFile) -> Place | None:
        want = 1 << 14
        while True:
            data = file.read(0, want)
            skip = len(BOM) if data.startswith(BOM) else 0
            ends = self._ends(data[skip:])
            if len(ends) or len(data) < want:
                break
            _check_length(file, data, 1)
            want *= 4
        if self._header is None:
            return Place(skip, 1) if len(ends) or len(data) > len(BOM) else None
        if not len(ends):
            return None
        header = header_of(data[: skip + int(ends[0])], self._header, file.path)
        return Place(header.byte, header.line)

    def find(self, file: OpenFile, start: Place, limit: int | None, complete: bool) -> Found:
        size = file.size if limit is None else limit
        want = PORTION
        while True:
            data = file.read(start.at, min(want, size - start.at))
            ends = self._ends(data)
            at_end = start.at + len(data) >= size
            if at_end and data and (complete or limit is not None) and (not len(ends) or ends[-1] < len(data)):
                ends = np.append(ends, len(data))
            if len(ends) or at_end:
                break
            _check_length(file, data, start.line)
            want *= 4
        if not len(ends):
            return Found(0, start, _NONE)
        lines = None
        if b'"' in data and self._header is not None:
            newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
            lines = start.line + np.searchsorted(newlines, ends)
        end = Place(
            start.at + int(ends[-1]), start.line + (len(ends) if lines is None else int(lines[-1]) - start.line)
        )
        return Found(len(ends), end, np.asarray(ends + start.at, np.int64), lines)

    def _ends(self, data: bytes) -> Offsets:
        if self._header is not None:
            return record_ends(data)
        return np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1


class ParquetFinder(RecordFinder):
    """Rows of parquet files, which appear whole."""

    def begin(self, file: OpenFile) -> Place | None:
        whole = file.size > 12 and file.read(0, 4) == _FOOTER and file.read(file.size - 4, 4) == _FOOTER
        return Place(0, 1) if whole else None

    def find(self, file: OpenFile, start: Place, limit: int | None, complete: bool) -> Found:
        try:
            with pq.ParquetFile(file.path) as found:
                rows = found.metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot be read as a parquet file: {error}", file.path) from error
        end = rows if limit is None else limit
        return Found(max(0, end - start.at), Place(max(end, start.at), 1))

    def known_bytes(self, file: OpenFile, end: Place) -> int:
        return file.size

    def needed_bytes(self, end: Place) -> int:
        return 0


def _check_length(file: OpenFile, data: bytes, line: int) -> None:
    if len(data) > LONGEST_RECORD:
        raise InputError(
            f"a record longer than {LONGEST_RECORD >> 20} MiB begins here: is a closing quote or a line end missing?",
            file.path,
            line,
        )
