"""Reads and writes Spark masters of one machine, such as `local[4,2]`: how many slots they have.

A session that Kigen starts has more slots than cores, so that ingest and the user's own jobs run while lanes hold a
slot each. Spark tries a failed task again there: a worker that died costs an epoch a second attempt, not the run.
"""

from __future__ import annotations

import os
import re

EXTRA_SLOTS = 2
_ATTEMPTS = 4
_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\])?")


def with_extra_slots(master: str) -> str:
    """Returns a local master with extra slots. Other masters, and those that say how often to try, stay as they are."""
    slots = slots_of(master)
    return master if slots is None or "," in master else f"local[{slots + EXTRA_SLOTS},{_ATTEMPTS}]"


def slots_of(master: str) -> int | None:
    """Returns the slots of a local master, or None for another one."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
