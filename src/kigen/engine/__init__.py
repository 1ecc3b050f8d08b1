"""Runs apps on Spark: `Engine`, its options, results and errors.

Names are loaded on first use, so that errors and defaults can be imported without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
    from kigen.engine.checkpoint.owner import CheckpointInUse
    from kigen.engine.defaults import LIFETIMES
    from kigen.engine.engine import Engine
    from kigen.engine.errors import AppNotFound, ArgumentError, RunFailed, SparkDied
    from kigen.engine.options import RunOptions
    from kigen.engine.progress import Progress, QueryProgress
    from kigen.engine.result import RunResult
    from kigen.engine.run import Run

__all__ = [
    "LIFETIMES",
    "AppNotFound",
    "ArgumentError",
    "CheckpointInUse",
    "CheckpointMismatch",
    "Engine",
    "Progress",
    "QueryProgress",
    "Run",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "SparkDied",
]
_MODULES = {
    "LIFETIMES": "defaults",
    "AppNotFound": "errors",
    "ArgumentError": "errors",
    "CheckpointInUse": "checkpoint.owner",
    "CheckpointMismatch": "checkpoint.fingerprint",
    "Engine": "engine",
    "Progress": "progress",
    "QueryProgress": "progress",
    "Run": "run",
    "RunFailed": "errors",
    "RunOptions": "options",
    "RunResult": "result",
    "SparkDied": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'kigen.engine' has no attribute '{name}'")
    return getattr(import_module(f"kigen.engine.{_MODULES[name]}"), name)
