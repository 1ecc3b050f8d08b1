"""Says which seeds a random test tries: few in `make test`, all of them in the soak."""

from __future__ import annotations

import os


def seeds(few: int, all_of_them: int, first: int = 0) -> range:
    return range(first, first + (all_of_them if "KIGEN_SOAK" in os.environ else few))
