"""Spark's own files below a checkpoint (offsets, commits, state), which Spark renames into place and never syncs.

In a Spark that Kigen started, our file system class syncs each before it is renamed
(`kigen.spark.session.start.sync_files`). This is for a Spark that the user brought. Invariant: when `SparkFiles.sync`
returns, all that Spark has written so far outlives a power cut. The sink calls it before rows of the batch leave, so
whatever the sink log says can be gone on from: the offset of its batch, the state before and after it. What it cannot
do: a batch that is made again after a restart replaces a synced state file by one that is not, until the next batch; a
power cut in that moment may end in Spark's error about a state that cannot be loaded. Cost: a look at some small
directories a batch, a sync for each new file (several at once) and one for each directory with a new name.
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
    def __init__(self, checkpoint: str) -> None:
        self._root = Path(checkpoint) / FOLDER
        self._synced: dict[str, set[str]] = {}  # directory -> names

    def sync(self, pool: Executor) -> None:
        news = {folder: names - self._synced.get(folder, set()) for folder, names in self._all().items()}
        files = [os.path.join(folder, name) for folder, names in news.items() for name in names]
        _each(pool, _sync_if_there, [path for path in files if not os.path.isdir(path)])
        _each(pool, sync_directory, [folder for folder, names in news.items() if names])
        for folder, names in self._all().items():
            known = self._synced.setdefault(folder, set())
            known |= news.get(folder, set())
            known &= names

    def _all(self) -> dict[str, set[str]]:
        """What there is, but for files that Spark is still writing."""
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
    """Spark removes old files meanwhile."""
    try:
        sync_file(path)
    except FileNotFoundError:
        return
