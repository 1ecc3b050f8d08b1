"""Hands the state of a task from one lane to another, at the end of an epoch, as a file below the checkpoint.

Spark's state belongs to a lane, so the task's manifest must travel. Invariant: the file is durable before the epoch
ends, and a replay writes the same. It is kept as long as the epoch that reads it may be made again.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from kigen.durable import DamagedFile, make_directories, remove, replace
from kigen.spark.operator.lane.lane_state import LaneState
from kigen.spark.operator.manifest import Manifest

_FOLDER = "moved"
_TODO = "Restore it from a copy of the checkpoint, or start from the beginning with a new --checkpoint directory"


def hand_over(checkpoint: str, epoch: int, task: str, manifest: Manifest, sync: bool) -> None:
    """Writes the state of a task after an epoch."""
    seq, text, snapshots = LaneState({task: manifest}).to_state(epoch)
    packed = base64.b64encode(snapshots or b"").decode()
    folder = Path(checkpoint) / _FOLDER
    make_directories(folder, sync)
    replace(folder / f"{epoch}.{task}", json.dumps({"seq": seq, "state": text, "snapshots": packed}).encode(), sync)


def take_over(checkpoint: str, epoch: int, task: str) -> Manifest:
    """Reads the state of a task as it was after an epoch. Raises DamagedFile."""
    path = Path(checkpoint) / _FOLDER / f"{epoch}.{task}"
    try:
        found = json.loads(path.read_bytes())
        state = LaneState.from_row((found["seq"], found["state"], base64.b64decode(found["snapshots"])))
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise DamagedFile(str(path), "the state of a task that changed its lane is missing or torn", _TODO) from error
    return state.manifest(task)


def trim(checkpoint: str | Path, epoch: int) -> None:
    """Removes the files of this epoch and of earlier ones."""
    for path in (Path(checkpoint) / _FOLDER).glob("*"):
        number = path.name.partition(".")[0]
        if number.isdigit() and int(number) <= epoch:
            remove(path)
