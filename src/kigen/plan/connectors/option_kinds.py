"""The kinds of values that options of connectors take. Every description of a connector is built from these.

Invariant: a value that a kind accepts can be read by `kigen.connectors.options`. No kind opens anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class OptionKind:
    """The kind of value that an option takes. `wanted` completes "needs ..."; `example` is a value as written."""

    wanted: str
    accepts: Callable[[object], bool]
    example: str


def matching(pattern: str) -> Callable[[object], bool]:
    """Returns a check whether a value is text that the whole pattern matches, in any case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def text(wanted: str, example: str) -> OptionKind:
    """Any text that is not blank."""
    return OptionKind(wanted, lambda value: isinstance(value, str) and bool(value.strip()), example)


def one_of(*choices: str) -> OptionKind:
    """One of a few words."""
    listed = " or ".join(part for part in (", ".join(f"'{c}'" for c in choices[:-1]), f"'{choices[-1]}'") if part)
    return OptionKind(listed, lambda value: value in choices, f"'{choices[0]}'")


def whole(least: int, example: str) -> OptionKind:
    """A whole number of at least `least`."""
    wanted = "a whole number above 0" if least == 1 else f"a whole number, {least} or more"

    def accepts(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    return OptionKind(wanted, accepts, example)


def positive(example: str) -> OptionKind:
    """A number above 0."""
    return OptionKind(
        "a number above 0",
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and value > 0,
        example,
    )


_UNITS = "us|ms|s|sec|m|min|h|microseconds?|milliseconds?|seconds?|minutes?|hours?"
_DURATION = rf"(?!\s*[0.]+\s*[a-z])\s*\d+(\.\d+)?\s*({_UNITS})\s*"
_INSTANT = r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?"

TEXT = text("a string in 'single quotes'", "'name'")
PATH = text("a string in 'single quotes'", "'data/file'")
COLUMNS = text("column names in 'single quotes'", "'a, b'")
FLAG = OptionKind("TRUE or FALSE", lambda value: isinstance(value, bool), "true")
DURATION = OptionKind("a duration such as '60 s', '500 ms' or '2 min'", matching(_DURATION), "'60 s'")
INSTANT = OptionKind("a timestamp such as '2024-01-01T00:00:00Z'", matching(_INSTANT), "'2024-01-01T00:00:00Z'")
SIZE = OptionKind("a size such as '128 MB'", matching(r"\s*\d+(\.\d+)?\s*[KMG]B\s*"), "'128 MB'")
