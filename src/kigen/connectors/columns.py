"""Finds declared columns among the columns of a file."""

from __future__ import annotations

from collections.abc import Sequence

from kigen.connectors.source_base import InputError


def place_of(wanted: str, names: Sequence[str], file: str, line: int | None, where: str) -> int:
    """Returns the index of a column by its exact name, else by its name without case and outer blanks. `where` names
    the place in messages, such as 'the header'."""
    for key in (str, lambda text: text.strip().casefold()):
        found = [i for i, name in enumerate(names) if key(name) == key(wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{where} names it {len(found)} times: one column of that name is required", file, line, wanted
            )
    raise InputError(f"{where} has no such column; it has: {', '.join(names)}", file, line, wanted)
