"""Reads values of a nodes file: durations, bandwidths, addresses and names. Each error says what to write."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

_TIME_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "min": 60e6}
_BYTES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Section:
    """A named table of the file."""

    name: str
    table: dict[str, Any]


class Values:
    """One table of the file. Collects what is wrong with it in `errors`."""

    def __init__(self, section: Section, errors: list[str]) -> None:
        self.values, self.errors = section.table, errors
        name = section.name
        self.where = name if not name or name.startswith("[") else f"[{name}]"

    def _wrong(self, key: str, value: Any, write: str) -> None:
        self.errors.append(f"{self.where} {key} = {value!r}: {write}".strip())

    def only(self, known: Sequence[str]) -> None:
        """Reports unknown keys."""
        for key in self.values:
            if key not in known:
                self.errors.append(f"{self.where} {key}: not known here; {suggest(key, known, 'there is')}".strip())

    def table(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if isinstance(value, dict):
            return value
        self._wrong(key, value, f"must be a table: write [{key}]")
        return {}

    def sections(self, key: str) -> list[tuple[str, Values]]:
        found = []
        for name, value in self.table(key).items():
            if isinstance(value, dict):
                found.append((name, Values(Section(f"{key}.{name}", value), self.errors)))
            else:
                self.errors.append(f"[{key}] {name} must be a table: write [{key}.{name}]")
        return found

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        self._wrong(key, value, "write it in quotes")
        return None

    def names(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return tuple(value)
        self._wrong(key, value, 'write a name, or several: ["a", "b"]')
        return ()

    @overload
    def number(
        self, key: str, default: float, *, above: float | None = None, least: float | None = None, whole: bool = False
    ) -> float: ...

    @overload
    def number(
        self, key: str, default: None, *, above: float | None = None, least: float | None = None
    ) -> float | None: ...

    def number(
        self,
        key: str,
        default: float | None,
        *,
        above: float | None = None,
        least: float | None = None,
        whole: bool = False,
    ) -> float | None:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and value != int(value)):
            self._wrong(key, value, "write a whole number" if whole else "write a number")
        elif above is not None and value <= above:
            self._wrong(key, value, f"must be above {above:g}")
        elif least is not None and value < least:
            self._wrong(key, value, f"must be {least:g} or more")
        else:
            return float(value)
        return default

    def duration(self, key: str, default: float) -> float:
        found = self._with_unit(key, "us|ms|s|min", "write a time with its unit (us, ms, s, min), such as '20 ms'")
        return default if found is None else found[0] * _TIME_US[found[1]]

    def percent(self, key: str) -> float | None:
        """Returns a share between 0 and 1."""
        found = self._with_unit(key, "%", "write it as '30 %'")
        return None if found is None else found[0] / 100

    def _with_unit(self, key: str, units: str, write: str) -> tuple[float, str] | None:
        """Returns a number and its unit, or None if there is no value or a wrong one, which is reported."""
        value = self.values.get(key)
        if value is None:
            return None
        found = re.fullmatch(rf"\s*(\d+(?:\.\d*)?)\s*({units})\s*", value) if isinstance(value, str) else None
        if found is None:
            self._wrong(key, value, write)
            return None
        return float(found[1]), found[2]

    def bandwidth(self, key: str) -> float | None:
        """Returns bytes per second."""
        value = self.values.get(key)
        if value is None:
            return None
        found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kMG]?)(B|bit)/s\s*", value) if isinstance(value, str) else None
        if found is None or float(found[1]) <= 0:
            self._wrong(key, value, "write it as '10 MB/s' or '100 Mbit/s'")
            return None
        return float(found[1]) * _BYTES[found[2]] / (8 if found[3] == "bit" else 1)

    def address(self, key: str, port: int) -> tuple[str, int]:
        value = self.values.get(key)
        if value is None:
            return "127.0.0.1", port
        found = re.fullmatch(r"([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})", value) if isinstance(value, str) else None
        if found is None or not 0 < int(found[2]) < 65536:
            self._wrong(key, value, f"write host and port, such as '127.0.0.1:{port}'")
            return "127.0.0.1", port
        return found[1], int(found[2])


def suggest(name: str, known: Iterable[str], what: str) -> str:
    """Returns the most similar known name, or all known names."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"{what} {', '.join(names) or 'none'}"
