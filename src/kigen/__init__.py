"""Continuous queries with deadlines on Spark. `kigen.Engine` runs an app; it is loaded on first use, since it brings
Spark with it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kigen.engine import Engine, RunFailed, RunResult

__all__ = ["Engine", "RunFailed", "RunResult"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import kigen.engine

        return getattr(kigen.engine, name)
    raise AttributeError(f"module 'kigen' has no attribute '{name}'")
