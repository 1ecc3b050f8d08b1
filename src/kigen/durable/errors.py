"""Defines the error for files that no longer hold what was written into them."""

from __future__ import annotations


class DamagedFile(ValueError):
    """A checkpoint file is torn, is missing or does not match the others. Exit code 1; survives pickling through
    Spark."""

    def __init__(self, file: str, found: str, todo: str) -> None:
        super().__init__(file, found, todo)
        self.file, self.found, self.todo = file, found, todo

    def __str__(self) -> str:
        return f"{self.file}: {self.found}. {self.todo}"
