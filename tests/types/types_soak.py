"""How often random tests of types are repeated: few times in `make test`, often in the soak."""

from __future__ import annotations

import os


def repetitions(few: int, many: int) -> int:
    return many if os.environ.get("KIGEN_SOAK") else few
