"""Collects the errors of several clauses, so that they are reported together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kigen.language.errors import CqlError, CqlErrors


class ErrorCollector:
    """Errors found so far. Keeps one per place, because a second one there is usually a consequence of the first."""

    def __init__(self) -> None:
        self._errors: list[CqlError] = []

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Keeps the errors that the block raises; the code after the block continues and may find more."""
        try:
            yield
        except CqlError as error:
            self._add(error)
        except CqlErrors as found:
            for each in found.errors:
                self._add(each)

    def raise_any(self) -> None:
        """Raises CqlErrors if there are errors."""
        if self._errors:
            raise CqlErrors(self._errors)

    def _add(self, error: CqlError) -> None:
        if not any((e.line, e.column) == (error.line, error.column) for e in self._errors):
            self._errors.append(error)
