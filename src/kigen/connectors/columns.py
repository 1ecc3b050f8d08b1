"""Finding declared columns among those that a file holds."""

from __future__ import annotations

from collections.abc import Sequence

from kigen.connectors.source_base import InputError


def place_of(wanted: str, names: Sequence[str], file: str, line: int | None, where: str) -> int:
    """By exact name, else by name without regard to case and outer blanks. `where` names the place in messages: 'the
    header'."""
    for key in (str, lambda text: text.strip().casefold()):
        found = [i for i, name in enumerate(names) if key(name) == key(wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{where} names it {len(found)} times: one column of that name is required", file, line, wanted
            )
    raise InputError(f"{where} has no such column; it has: {', '.join(names)}", file, line, wanted)
