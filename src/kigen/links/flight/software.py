"""What this process runs: two replicas give the same rows only if they run the same."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version


@lru_cache(maxsize=1)
def software() -> dict[str, str]:
    return {"kigen": version("kigen"), "duckdb": version("duckdb")}
