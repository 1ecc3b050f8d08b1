"""Reports the software versions of this process. Two replicas give the same rows only if their versions are equal."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version


@lru_cache(maxsize=1)
def software() -> dict[str, str]:
    """Returns the versions of the packages that decide which rows a query gives."""
    return {"kigen": version("kigen"), "duckdb": version("duckdb")}
