"""Finds declared columns among the columns of a file or a batch."""

from __future__ import annotations

from collections.abc import Sequence

from kigen.connectors.source_base import InputError
from kigen.plan.logical import SourceStream

MISSING = -1  # the place of a column that is not there: it is NULL


def places_of(stream: SourceStream, names: Sequence[str], file: str, line: int | None, where: str) -> tuple[int, ...]:
    """Returns the place of each declared column, MISSING for those that are not there. `where` names what was searched
    in messages, such as 'the header'.

    Raises InputError if the stream's timestamp or a column of a table's key is missing, or all columns are: then it is
    another file.
    """
    places = tuple(place_of(column.name, names, file, line, where) for column in stream.schema)
    required = (*(() if stream.timestamp is None else (stream.timestamp,)), *stream.key)
    for index in required:
        if places[index] == MISSING:
            what = "the stream's timestamp" if index == stream.timestamp else "part of the table's key"
            message = f"{where} has no such column; it has: {', '.join(names)}. It is required: it is {what}"
            raise InputError(message, file, line, stream.schema[index].name)
    if all(place == MISSING for place in places):
        declared = ", ".join(column.name for column in stream.schema)
        kind = "table" if stream.table else "stream"
        message = f"{where} has none of the columns of {kind} '{stream.name}' ({declared}); it has: {', '.join(names)}"
        raise InputError(f"{message}. Is it the right one?", file, line)
    return places


def place_of(wanted: str, names: Sequence[str], file: str, line: int | None, where: str) -> int:
    """Returns the index of a column by its exact name, else by its name without case and outer blanks; else MISSING."""
    for key in (str, lambda text: text.strip().casefold()):
        found = [i for i, name in enumerate(names) if key(name) == key(wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{where} names it {len(found)} times: one column of that name is required", file, line, wanted
            )
    return MISSING
