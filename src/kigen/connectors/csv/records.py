"""Finds where the records of CSV text end, vectorised by the parity of quotes.

Invariant: text that starts at the beginning of a record is cut exactly where the parser (pyarrow.csv) ends a record. A
quote opens a quoted field only as the first byte of a field, `""` inside one is a quote, and any other quote is an
ordinary byte. Cost: a few passes over the bytes, and one regular expression pass where an unquoted field contains a
quote, because parity fails there.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from kigen.connectors.text_files import Offsets

_QUOTE, _NEWLINE, _RETURN, _COMMA = 34, 10, 13, 44
_FIELD = re.compile(rb'(?:"(?:[^"]|"")*(?P<closed>")?[^,\r\n]*|[^",\r\n][^,\r\n]*|)(?P<end>,|\r\n|\n|\r|\Z)')


def record_ends(data: bytes) -> Offsets:
    """Returns the offsets just after each line feed outside quotes."""
    octets = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(octets == _NEWLINE)
    quotes = _quotes(data, octets)
    if quotes is None:
        ends, _ = _scan(data)
        return np.asarray(ends[octets[ends - 1] == _NEWLINE], np.int64)
    return newlines[_outside(newlines, quotes)] + 1


def is_open(data: bytes) -> bool:
    """Returns whether the text ends inside a quoted field."""
    quotes = _quotes(data, np.frombuffer(data, np.uint8))
    return _scan(data)[1] if quotes is None else bool(len(quotes) % 2)


def record_starts(data: bytes) -> Offsets:
    """Returns the offsets of all records except empty lines. A lone carriage return ends a record, as for the
    parser."""
    if not data:
        return np.empty(0, np.int64)
    octets = np.frombuffer(data, np.uint8)
    quotes = _quotes(data, octets)
    if quotes is None:
        ends, _ = _scan(data)
    else:
        breaks = np.flatnonzero((octets == _NEWLINE) | (octets == _RETURN))
        ends = breaks[_outside(breaks, quotes)] + 1
    starts = np.concatenate((np.zeros(1, np.int64), ends))
    starts = starts[starts < len(data)]
    first = octets[starts]
    return np.asarray(starts[(first != _NEWLINE) & (first != _RETURN)], np.int64)


def _outside(positions: Offsets, quotes: Offsets) -> npt.NDArray[np.bool_]:
    return np.asarray(np.searchsorted(quotes, positions) % 2 == 0, np.bool_)


def _quotes(data: bytes, octets: npt.NDArray[np.uint8]) -> Offsets | None:
    """Returns the positions of the quotes; None if one is inside an unquoted field, because parity then fails."""
    if _QUOTE not in data:
        return np.empty(0, np.int64)
    quotes = np.flatnonzero(octets == _QUOTE)
    opening = quotes[::2]
    before = octets[np.maximum(opening - 1, 0)]
    at_start = (opening == 0) | (before == _COMMA) | (before == _NEWLINE) | (before == _RETURN)
    doubled = np.zeros(len(opening), bool)
    doubled[1:] = opening[1:] == quotes[1::2][: len(opening) - 1] + 1
    return quotes if bool((at_start | doubled).all()) else None


def _scan(data: bytes) -> tuple[Offsets, bool]:
    """Scans field by field, slowly: returns the ends of records and whether a quoted field stays open."""
    ends: list[int] = []
    at, inside = 0, False
    while at < len(data):
        match = _FIELD.match(data, at)
        assert match is not None
        inside = data[at] == _QUOTE and match.group("closed") is None
        at = match.end()
        if match.group("end") not in (b",", b""):
            ends.append(at)
    return np.array(ends, np.int64), inside
