"""Formats of checkpoints, and how this version opens those of older versions.

    1   up to 0.1.0 of November 2026: ranges in the state have no checksums; records of the sink log lack the ends of
        their batch
    2   ranges have a checksum, records have the ends and checksums of their batch; queues count their syncs
    3   app.json has the plans that run and what changes of the app have recorded; snapshots name operators by digest

Invariant: a checkpoint of any format in `_STEPS` opens and keeps all that it promised when it was written. What it does
not hold, such as checksums of its input, is not verified. A checkpoint of a later or unknown version is refused, with
what to do. Cost of an older one: its description is written again, once. A new format adds a line here, a step below,
and a frozen checkpoint of the previous format to tests/spark/frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = 3
Description = dict[str, Any]  # app.json


class CheckpointFormatError(ValueError):
    """This version cannot open the format of the checkpoint. `kigen` exits with code 2."""


def _one_to_two(found: Description, mine: Description) -> Description:
    """Changes only the number: readers of the state and of the sink log accept both formats."""
    return {**found, "format": 2}


def _two_to_three(found: Description, mine: Description) -> Description:
    """Changes only the number. The plans are those of the app, which must be the same: the first run adds them."""
    return {**found, "format": 3}


_STEPS: dict[int, Callable[[Description, Description], Description]] = {1: _one_to_two, 2: _two_to_three}


def migrated(found: Description, mine: Description) -> Description:
    """Returns the description as this version would have written it; `found_format` is the format that it had.

    Raises CheckpointFormatError.
    """
    first = at = found.get("format")
    while at != FORMAT:
        step = _STEPS.get(at) if isinstance(at, int) else None
        if step is None:
            raise CheckpointFormatError(
                f"the checkpoint has format {first!r}, written by Kigen {found.get('kigen', '?')}; Kigen "
                f"{mine['kigen']} reads formats 1 to {FORMAT}. Drain it with the Kigen that wrote it (kigen run "
                "--drain on this checkpoint ends it), then start this one with a new --checkpoint directory"
            )
        found = step(found, mine)
        at = found["format"]
    return {**found, "found_format": first}
