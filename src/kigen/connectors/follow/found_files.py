"""Finds followed files for the workers that read them: by identity, wherever they are now."""

from __future__ import annotations

from kigen.connectors.follow.file_identity import FileId, located
from kigen.connectors.follow.open_file import OpenFile
from kigen.connectors.input_files import Files
from kigen.connectors.source_base import InputError


class FoundFiles(Files):
    """Stands in for the files of a path. A name here is a key that `know` returns."""

    def __init__(self, directory: str) -> None:
        super().__init__("", directory, ())
        self._ids: dict[str, tuple[FileId, int]] = {}
        self._paths: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    def know(self, file: FileId, least: int) -> str:
        """Returns the key of a file, and looks for the file if it is not where it was."""
        key = f"{file.born}:{file.name}"
        self._ids[key] = file, least
        if key not in self._paths or not self._is_at(file, self._paths[key], least):
            self._find(key)
        return key

    def full(self, name: str) -> str:
        return self._paths[name]

    def read(self, name: str, start: int, length: int) -> bytes:
        for again in (True, False):
            file, least = self._ids[name]
            try:
                with OpenFile(self._paths[name]) as opened:
                    head = opened.identity(file.name, file.born, file.head)
                    if head.checksum == file.checksum and opened.size >= least:
                        return opened.read(start, length)
            except OSError as error:
                if not again:
                    raise InputError(f"cannot be read ({error.strerror})", self._paths[name]) from error
            self._find(name)
        raise InputError("is renamed or rewritten again and again while it is read", self._paths[name])

    def _find(self, key: str) -> None:
        file, least = self._ids[key]
        self._paths[key] = located(file, self._directory, least)

    def _is_at(self, file: FileId, path: str, least: int) -> bool:
        return file.is_at(path, least) or file.is_copy(path, least)
