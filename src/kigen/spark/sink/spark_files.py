"""Syncs Spark's own files below a checkpoint (offsets, commits, state): Spark renames them into place but never syncs.

In a Spark that Kigen started, Kigen's file system class syncs each file before it is renamed
(`kigen.spark.session.start.sync_files`). This module is for a Spark that the user brought. Invariant: when
`SparkFiles.sync` returns, all that Spark has written so far outlives a power cut. The sink calls it before rows of the
batch leave. So a run can continue from whatever the sink log records: the offset of its batch and the state before and
after it exist. One gap remains. A batch that is repeated after a restart replaces a synced state file by one that is
not synced until the next batch. After a power cut at that moment, Spark may fail with an error about a state that
cannot be loaded. Cost per batch: a listing of some small directories, one sync per new file (in parallel) and one per
directory with a new name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path

from kigen.durable import sync_directory, sync_file

FOLDER = "spark"
OFFSETS, COMMITS, STATE = "offsets", "commits", "state"


class SparkFiles:
    """Remembers which files are synced already."""

    def __init__(self, checkpoint: str) -> None:
        self._root = Path(checkpoint) / FOLDER
        self._synced: dict[str, set[str]] = {}  # directory -> names

    def sync(self, pool: Executor) -> None:
        unsynced = {folder: names - self._synced.get(folder, set()) for folder, names in self._all().items()}
        files = [os.path.join(folder, name) for folder, names in unsynced.items() for name in names]
        _each(pool, _sync_if_there, [path for path in files if not os.path.isdir(path)])
        _each(pool, sync_directory, [folder for folder, names in unsynced.items() if names])
        for folder, names in self._all().items():
            known = self._synced.setdefault(folder, set())
            known |= unsynced.get(folder, set())
            known &= names

    def _all(self) -> dict[str, set[str]]:
        """Lists all files and directories except files that Spark is still writing."""
        found: dict[str, set[str]] = {}
        for folder, folders, files in os.walk(self._root):
            found[folder] = {
                name for name in (*folders, *files) if not name.startswith(".") and not name.endswith(".tmp")
            }
        if found:
            found[str(self._root.parent)] = {FOLDER}
        return found


def _each(pool: Executor, do: Callable[[str], None], paths: Iterable[str]) -> None:
    for _ in pool.map(do, paths):
        pass


def _sync_if_there(path: str) -> None:
    """Syncs a file unless Spark has removed it in the meantime."""
    try:
        sync_file(path)
    except FileNotFoundError:
        return
