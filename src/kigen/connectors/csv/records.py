"""Where the records of CSV text end: vectorised by the parity of quotes.

Invariant: text that starts at a record's beginning is cut exactly where the parser (pyarrow.csv) ends a record: a quote
opens a quoted field only as the first byte of a field, `""` inside one is a quote, any other quote is an ordinary byte.
Cost: a few passes over the bytes; one regular expression pass where an unquoted field holds a quote, since parity fails
there.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
_QUOTE, _NEWLINE, _RETURN, _COMMA = 34, 10, 13, 44
_FIELD = re.compile(rb'(?:"(?:[^"]|"")*(?P<closed>")?[^,\r\n]*|[^",\r\n][^,\r\n]*|)(?P<end>,|\r\n|\n|\r|\Z)')


def record_ends(data: bytes) -> Offsets:
    """Offsets just after each line feed outside quotes."""
    octets = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(octets == _NEWLINE)
    quotes = _quotes(data, octets)
    if quotes is None:
        ends, _ = _scan(data)
        return np.asarray(ends[octets[ends - 1] == _NEWLINE], np.int64)
    return newlines[_outside(newlines, quotes)] + 1


def is_open(data: bytes) -> bool:
    """Whether the text ends inside a quoted field."""
    quotes = _quotes(data, np.frombuffer(data, np.uint8))
    return _scan(data)[1] if quotes is None else bool(len(quotes) % 2)


def record_starts(data: bytes) -> Offsets:
    """Offsets of all records but empty lines, a lone carriage return ending a record too, as for the parser."""
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
    """Positions of the quotes, or None where one stands in an unquoted field, so that parity says nothing."""
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
    """The slow, obvious way, field by field: ends of records, and whether a quoted field stays open."""
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
