"""Collects rows that cannot be read while a range is parsed; they then end the run, or are skipped and counted.

Invariant: which rows are bad, and the message of each, depend on the row alone, never on how the input was cut into
ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kigen.connectors.source_base import BadRow, InputError
from kigen.plan.types import Type

KEPT = 5  # skipped rows per range that are kept as text
_WRITE = {
    "BOOLEAN": "true or false",
    "BIGINT": "a whole number between -9223372036854775808 and 9223372036854775807",
    "DOUBLE": "a number such as 1.5 or 2e-3",
    "STRING": "text in UTF-8",
    "TIMESTAMP": "a time such as 2026-01-02T03:04:05.000006Z or 2026-01-02T12:04:05+09:00, with Z or an offset",
    "DATE": "a day such as 2026-01-02",
    "TIME": "a time of day such as 03:04:05.000006",
    "UUID": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    "BLOB": "bytes in base64",
    "LIST": "a JSON array of such values",
    "STRUCT": "a JSON object with such values",
}
_SHOWN = 80


def shown(text: str) -> str:
    """Returns input as a message shows it: on one line and not too long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def wrong_type(text: str, type_: Type) -> str:
    if type_.is_decimal:
        before, after = type_.precision - type_.scale, type_.scale
        write = f"a number with at most {before} digits before the point and {after} after it"
    else:
        write = _WRITE[type_.kind]
    return f"{type_} required, found {shown(text)}: write {write}"


def null_timestamp(text: str = "no value") -> str:
    return f"the stream's timestamp is required, found {text}: write {_WRITE['TIMESTAMP']}"


@dataclass
class BadRows:
    """Bad rows of one range, by row number in the range. Of several faults in a row, the one in the leftmost column
    counts."""

    file: str
    skip: bool
    _faults: dict[int, tuple[int | None, int, str | None, str]] = field(default_factory=dict)

    def add(self, row: int, line: int | None, column: int, name: str | None, message: str) -> None:
        known = self._faults.get(row)
        if known is None or column < known[1]:
            self._faults[row] = (line, column, name, message)

    def __contains__(self, row: int) -> bool:
        return row in self._faults

    def good(self, count: int) -> npt.NDArray[np.bool_]:
        """Returns which of the rows 0..count-1 are not bad."""
        mask = np.ones(count, np.bool_)
        mask[list(self._faults)] = False
        return mask

    def settle(self) -> tuple[int, list[str]]:
        """Raises for the first bad row; under ON ERROR SKIP returns the count and the first few as text."""
        faults = [self._faults[row] for row in sorted(self._faults)]
        errors = [
            InputError(message, self.file, line, name) for line, _, name, message in faults[: KEPT if self.skip else 1]
        ]
        if errors and not self.skip:
            raise errors[0]
        return len(faults), [str(error) for error in errors]

    def listed(self, text_of: Callable[[int], str]) -> tuple[BadRow, ...]:
        """Returns all bad rows; `text_of` gives the text of a row by its number."""
        found = []
        for row in sorted(self._faults):
            line, _, name, message = self._faults[row]
            place = self.file if line is None else f"{self.file}:{line}"
            found.append(BadRow(text_of(row), place, message if name is None else f"field '{name}': {message}"))
        return tuple(found)
