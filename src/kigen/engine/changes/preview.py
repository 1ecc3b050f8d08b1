"""Plans a change on a checkpoint without making it.

Invariant: reads files of the checkpoint and of nothing else, and changes none, so it may look at a run that goes on.
Options of the run (--output, --lifetime) are taken from the checkpoint.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from kigen.engine.changes.difference import difference
from kigen.engine.changes.planned import PlannedChange, planned_change
from kigen.engine.checkpoint.app_record import read_record
from kigen.engine.checkpoint.fingerprint import declaration_digest, fingerprint
from kigen.engine.errors import ArgumentError
from kigen.plan.logical import App
from kigen.spark.admission.stand import stand_of


def preview(checkpoint: Path, declared: App, replay_us: int | None = None) -> PlannedChange:
    """Returns the change from the app of a checkpoint to the declared one. Raises ArgumentError, CheckpointMismatch."""
    kigen = version("kigen")
    record = read_record(checkpoint, kigen) if checkpoint.is_dir() else None
    if record is None:
        raise ArgumentError(f"{checkpoint} is no checkpoint: give the directory of 'kigen run --checkpoint DIR'")
    if not record.tasks:
        raise ArgumentError(
            f"{checkpoint} was written by Kigen {record.fingerprint.get('kigen', '?')} and holds no plans yet: run the "
            "unchanged app on it once with this Kigen, then change it"
        )
    output = record.fingerprint["output"]
    mine = fingerprint(declared, record.fingerprint["lifetime"], False, output, kigen, [])
    if record.started_with and record.started_with == declaration_digest(mine):
        # 'kigen run' continues the app as it was changed while it ran.
        mine = {**mine, **{key: record.fingerprint[key] for key in ("streams", "queries", "reads")}}
        declared = replace(declared, streams=record.streams, queries=record.queries)
    found = difference(record.fingerprint, mine)
    return planned_change(record, declared, mine, found, stand_of(checkpoint), replay_us, output)
