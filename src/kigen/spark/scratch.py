"""What the reader's process and the command's process tell each other through files on the driver's machine.

Invariant: each file is replaced by a rename, never written in place; losing them loses nothing but time.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Scratch:
    def __init__(self, directory: str) -> None:
        self._event = Path(directory) / "next_event"
        self._error = Path(directory) / "error"
        self._closing = Path(directory) / "closing"
        self._seen: tuple[int, int | None] = (-1, None)  # file's time, value

    def set_next_event(self, at_us: int | None) -> None:
        """The sink tells the reader when time itself will next change a result."""
        replace(self._event, json.dumps(at_us).encode())

    def next_event_us(self) -> int | None:
        try:
            changed = self._event.stat().st_mtime_ns
            if changed != self._seen[0]:
                self._seen = changed, json.loads(self._event.read_bytes())
        except FileNotFoundError:
            return None
        return self._seen[1]

    def close_streams(self) -> None:
        """The command tells the reader that the run's time is over."""
        self._closing.touch()

    @property
    def closing(self) -> bool:
        return self._closing.exists()

    @contextmanager
    def telling_errors(self) -> Iterator[None]:
        """Spark would wrap the error in two stack traces: keep it as it is for the command."""
        try:
            yield
        except Exception as error:
            replace(self._error, pickle.dumps(error))
            raise

    def error(self) -> Exception | None:
        if not self._error.exists():
            return None
        error = pickle.loads(self._error.read_bytes())
        assert isinstance(error, Exception)
        return error


def replace(path: Path, data: bytes, durable: bool = False) -> None:
    """Write a file so that it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)
