"""Files that hold something else than what was written into them."""

from __future__ import annotations


class DamagedFile(ValueError):
    """A file of a checkpoint is torn, missing, or does not fit the others: exit code 1. Survives pickling through
    Spark."""

    def __init__(self, file: str, found: str, todo: str) -> None:
        super().__init__(file, found, todo)
        self.file, self.found, self.todo = file, found, todo

    def __str__(self) -> str:
        return f"{self.file}: {self.found}. {self.todo}"
