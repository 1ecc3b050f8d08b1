"""A strict reader of RFC 4180. Unlike Python's csv, it distinguishes an unquoted empty field (None) from a quoted one
('')."""

from __future__ import annotations

import re

FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|$)')


def records(text: str) -> list[list[str | None]]:
    """Returns all records, the header first. Raises ValueError if the text is not RFC 4180."""
    found: list[list[str | None]] = []
    record: list[str | None] = []
    place = 0
    while place < len(text):
        match = FIELD.match(text, place)
        if match is None:
            raise ValueError(f"record {len(found) + 1} is not RFC 4180: {text[place : place + 60]!r}")
        quoted, bare, end = match.groups()
        record.append(quoted.replace('""', '"') if quoted is not None else bare or None)
        place = match.end()
        if end != ",":
            found.append(record)
            record = []
        elif place == len(text):
            record.append(None)
    if record:
        found.append(record)
    return found
