"""Describes plans as text, for digests that stored checkpoints and placements are recognized by.

Invariant: a plan that an older version could write has the text that it had then. Fields that plan nodes have got since
are left out where they have no effect.
"""

from __future__ import annotations

import re
from typing import Any

_LATER_FIELDS = re.compile(
    r", (?:distinct=False, order=\(\), parameter=None, condition=None|bounds=False|also=\(\))(?=\))"
)


def description(value: Any) -> str:
    """Returns the text of a plan or of a part of it."""
    return _LATER_FIELDS.sub("", repr(value))
