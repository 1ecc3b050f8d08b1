"""Formats of checkpoints: which there were, and how one of an older Kigen is opened by this one.

    1   up to 0.1.0 of November 2026: ranges in the state without checksums, records of the sink log without the ends of
    their batch
    2   ranges carry a checksum, records the ends and checksums of their batch; queues count their syncs

Invariant: a checkpoint of any format in `_STEPS` opens, with all it promised when it was written; what it did not hold
(a checksum of what it had read) is not verified. One of a later Kigen, or of none that is known, is refused with what
to do. Cost of an older one: its description is written anew, once. A new format adds its line here, its step below, and
a frozen checkpoint of the one before to tests/spark/frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = 2
Description = dict[str, Any]  # app.json


class CheckpointFormatError(ValueError):
    """A checkpoint that this Kigen cannot open: exit code 2."""


def _one_to_two(found: Description, mine: Description) -> Description:
    """Readers of the state and of the sink log take both; nothing has to be rewritten."""
    return {**found, "format": 2}


_STEPS: dict[int, Callable[[Description, Description], Description]] = {1: _one_to_two}


def migrated(found: Description, mine: Description) -> Description:
    """The description as this Kigen would have written it; `found_format` tells what it was. Raises
    CheckpointFormatError."""
    first = at = found.get("format")
    while at != FORMAT:
        step = _STEPS.get(at) if isinstance(at, int) else None
        if step is None:
            raise CheckpointFormatError(
                f"the checkpoint has format {first!r}, written by Kigen {found.get('kigen', '?')}; Kigen "
                f"{mine['kigen']} reads formats 1 "
                f"to {FORMAT}. Drain it with the Kigen that wrote it (kigen run --drain on this checkpoint ends it), "
                "then start this one "
                f"with a new --checkpoint directory"
            )
        found = step(found, mine)
        at = found["format"]
    return {**found, "found_format": first}
