"""Reads connector options as an app file writes them: names, durations, numbers, paths.

Invariant: a wrong option raises an `OptionError` while the connector is being opened, before any data is touched.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from kigen.connectors.source_base import InputError
from kigen.plan.connectors.registry import connector_named
from kigen.plan.logical import Connector

_UNIT_US = {
    "us": 1, "microsecond": 1, "microseconds": 1,
    "ms": 1_000, "millisecond": 1_000, "milliseconds": 1_000,
    "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000, "seconds": 1_000_000,
    "m": 60_000_000, "min": 60_000_000, "minute": 60_000_000, "minutes": 60_000_000,
    "h": 3_600_000_000, "hour": 3_600_000_000, "hours": 3_600_000_000,
}  # fmt: skip
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMG])B\s*", re.IGNORECASE)


class OptionError(InputError):
    """A connector was declared with a wrong option: the app file is wrong, not the data. `option` names the option."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        return (OptionError, (self.message, self.option))


def check_names(owner: str, connector: Connector, allowed: tuple[str, ...]) -> None:
    """Refuses an option that the connector does not have, and suggests the closest one that it has."""
    for key, _ in connector.options:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"it has: {', '.join(allowed) or 'none'}"
            raise OptionError(f"{owner}: connector '{connector.name}' has no option '{key}'; {hint}", key)


def duration_us(owner: str, key: str, value: Any) -> int:
    """Parses `'60 s'`, `'500 ms'` or `'2 min'`; a bare number is seconds."""
    match = _DURATION.fullmatch(str(value))
    unit = _UNIT_US.get(match.group(2).lower() or "s") if match else None
    if isinstance(value, bool) or match is None or unit is None or float(match.group(1)) <= 0:
        raise OptionError(f"{owner}: {key} must be a positive duration such as '60 s' or '500 ms', not {value!r}", key)
    return round(float(match.group(1)) * unit)


def size_bytes(owner: str, key: str, value: Any) -> int:
    """Parses `'128 MB'` or `'1 GB'`; units are powers of 1024."""
    match = _SIZE.fullmatch(str(value))
    if match is None or float(match.group(1)) <= 0:
        raise OptionError(f"{owner}: {key} must be a size such as '128 MB' or '1 GB', not {value!r}", key)
    unit: int = 1024 ** ("KMG".index(match.group(2).upper()) + 1)
    return round(float(match.group(1)) * unit)


def number(owner: str, key: str, value: Any, least: float = 0.0) -> float:
    """Returns a number above `least`; raises OptionError for anything else."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        result = float("nan")
    if isinstance(value, bool) or not result > least or result == float("inf"):
        raise OptionError(f"{owner}: {key} must be a number above {least:g}, not {value!r}", key)
    return result


def whole(owner: str, key: str, value: Any, least: int = 0) -> int:
    """Returns a whole number of at least `least`; raises OptionError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{owner}: {key} must be a whole number of at least {least}, not {value!r}", key)
    return value


def suffixes_of(connector: Connector) -> tuple[str, ...]:
    """Returns the endings of the files that the connector reads if its path is a directory."""
    spec = connector_named(connector.name)
    return () if spec is None else spec.suffixes


def secret_of(owner: str, connector: Connector, key: str, directory: str) -> str | None:
    """Returns the secret that option `KEY_env` or `KEY_file` names; None if neither is given. An app file never holds a
    secret itself, since it travels through Spark's options, which others can see."""
    variable, file = connector.option(f"{key}_env"), connector.option(f"{key}_file")
    if variable is not None and file is not None:
        raise OptionError(f"{owner}: {key}_env and {key}_file exclude each other: keep one", f"{key}_env")
    if variable is not None:
        if str(variable) not in os.environ:
            message = f"{owner}: {key}_env names the environment variable {variable}, which is not set"
            raise OptionError(message, f"{key}_env")
        return os.environ[str(variable)]
    if file is None:
        return None
    try:
        return (Path(directory) / str(file)).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise OptionError(f"{owner}: {key}_file cannot be read: {error}", f"{key}_file") from error


def path_of(owner: str, connector: Connector) -> str:
    """Returns the option `path`; raises OptionError if it is missing."""
    path = connector.option("path")
    if not isinstance(path, str) or not path:
        raise OptionError(
            f"{owner}: connector '{connector.name}' needs a path: write {connector.name} (path = '...')", "path"
        )
    return path
