"""Defines the errors of an app file: where it is wrong, what was required and what to write instead.

Invariant: a `CqlError` carries everything that `render` shows as plain data, so it survives pickling and no longer
needs the file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class CqlError(ValueError):
    """One error at one place. `line` and `column` count from 1; `length` characters are underlined."""

    def __init__(
        self,
        message: str,
        file: str = "<app>",
        line: int = 1,
        column: int = 1,
        length: int = 1,
        hint: str | None = None,
        source_line: str = "",
    ) -> None:
        super().__init__(message, file, line, column, length, hint, source_line)
        self.message, self.file, self.line, self.column = message, file, line, column
        self.length, self.hint, self.source_line = length, hint, source_line

    @property
    def underlined(self) -> str:
        """Returns the text above the carets."""
        return self.source_line[self.column - 1 : self.column - 1 + self.length]

    def render(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}"
        gutter = f"{self.line:>5} | "
        # A tab before the error must stay a tab, or the carets would not line up.
        indent = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.column - 1])
        carets = "^" * max(1, min(self.length, max(1, len(self.source_line) - self.column + 1)))
        text += f"\n{gutter}{self.source_line}\n{' ' * (len(gutter) - 2)}| {indent}{carets}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __str__(self) -> str:
        return self.render()


class CqlWarning(CqlError):
    """A warning: the app is valid, but may not do what it seems to. Rendered like an error, and never raised."""

    def render(self) -> str:
        return f"warning: {super().render()}"


class CqlErrors(ValueError):
    """All errors of one app file, in the order of the text."""

    def __init__(self, errors: Sequence[CqlError]) -> None:
        super().__init__(list(errors))
        self.errors = sorted(errors, key=lambda e: (e.line, e.column))

    def render(self) -> str:
        return "\n\n".join(error.render() for error in self.errors)

    def __str__(self) -> str:
        return self.render()


def near(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is closest to `name`, or None."""
    by_lower = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggest(name: str, known: Iterable[str], what: str) -> str:
    """Returns a hint: the closest name if there is one, else the list of known names."""
    known = list(known)
    best = near(name, known)
    if best is not None:
        return f"did you mean {best}?"
    return f"{what}: {', '.join(known)}" if known else f"there are no {what}"
