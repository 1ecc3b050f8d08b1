"""Tracks which kernel snapshots below `chunks/` are still needed, and deletes the others.

Invariant: a snapshot stays as long as a state names it that Spark retains (the last RETAINED_BATCHES batches). Cost:
one listing of the directory per batch.
"""

from __future__ import annotations

from pathlib import Path

from kigen.durable import remove
from kigen.spark.session.start import RETAINED_BATCHES
from kigen.spark.sink.sink_log import Snapshots


def with_batch(before: Snapshots, batch: int, chunks: dict[str, str | None]) -> Snapshots:
    """Adds the snapshots that a batch names, and forgets those older than the last RETAINED_BATCHES batches."""
    named = {task: [(b, name) for b, name in versions] for task, versions in before.items()}
    for task, name in chunks.items():
        versions = named.setdefault(task, [])
        if not versions or versions[-1][1] != name:
            versions.append((batch, name))
    for versions in named.values():
        while len(versions) > 1 and versions[1][0] <= batch - RETAINED_BATCHES:
            versions.pop(0)
    return named


def remove_unneeded(checkpoint: str, named: Snapshots) -> None:
    """Deletes snapshots that no retained state names. No worker may write one now: Spark has all rows of the batch.

    While lanes close an epoch, a lane that takes over from another one may be saving its state.
    """
    needed = {name for versions in named.values() for _, name in versions}
    directory = Path(checkpoint) / "chunks"
    if directory.is_dir():
        for path in directory.iterdir():
            if path.name not in needed:
                remove(path)
