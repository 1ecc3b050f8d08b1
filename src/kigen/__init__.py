"""Continuous queries with deadlines on Spark.

`kigen.Engine` runs an app; `kigen.check` and `kigen.explain` work without Spark. Names are loaded on first use, so that
`import kigen` is quick and only what needs Spark imports it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kigen.connectors import InputError
    from kigen.connectors.options import OptionError
    from kigen.durable import DamagedFile
    from kigen.engine.apps import check, explain
    from kigen.engine.changes.live import AppChange
    from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
    from kigen.engine.checkpoint.formats import CheckpointFormatError
    from kigen.engine.checkpoint.owner import CheckpointInUse
    from kigen.engine.engine import Engine
    from kigen.engine.errors import AppNotFound, ArgumentError, RunFailed, SparkDied
    from kigen.engine.options import RunOptions
    from kigen.engine.progress import Progress, QueryProgress
    from kigen.engine.result import RunResult
    from kigen.engine.run import Run
    from kigen.language.errors import CqlError, CqlErrors, CqlWarning
    from kigen.lifetimes import EvaluationError
    from kigen.links import LinkDown, LinkError, LinkRefused
    from kigen.placement.nodes_file.entries import NodesFileError
    from kigen.placement.problem_checks import ProblemError
    from kigen.placement.profile import ProfileError
    from kigen.placement.solver.mip import SolverMissing
    from kigen.placement.stored import PlacementMismatch
    from kigen.queue import QueueError
    from kigen.spark.admission.offsets import OffsetFormatError
    from kigen.spark.operator.manifest import ManifestFormatError
    from kigen.spark.session.start import SparkUnavailable
    from kigen.spark.sink.sink_log import SinkLogFormatError
    from kigen.spark.watch.memory import MemoryLimitReached

__all__ = [
    "AppChange",
    "AppNotFound",
    "ArgumentError",
    "CheckpointFormatError",
    "CheckpointInUse",
    "CheckpointMismatch",
    "CqlError",
    "CqlErrors",
    "CqlWarning",
    "DamagedFile",
    "Engine",
    "EvaluationError",
    "InputError",
    "LinkDown",
    "LinkError",
    "LinkRefused",
    "ManifestFormatError",
    "MemoryLimitReached",
    "NodesFileError",
    "OffsetFormatError",
    "OptionError",
    "PlacementMismatch",
    "ProblemError",
    "ProfileError",
    "Progress",
    "QueryProgress",
    "QueueError",
    "Run",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "SinkLogFormatError",
    "SolverMissing",
    "SparkDied",
    "SparkUnavailable",
    "check",
    "explain",
]
_MODULES = {
    "AppChange": "engine.changes.live",
    "AppNotFound": "engine.errors",
    "ArgumentError": "engine.errors",
    "CheckpointFormatError": "engine.checkpoint.formats",
    "CheckpointInUse": "engine.checkpoint.owner",
    "CheckpointMismatch": "engine.checkpoint.fingerprint",
    "CqlError": "language.errors",
    "CqlErrors": "language.errors",
    "CqlWarning": "language.errors",
    "DamagedFile": "durable",
    "Engine": "engine.engine",
    "EvaluationError": "lifetimes",
    "InputError": "connectors",
    "LinkDown": "links",
    "LinkError": "links",
    "LinkRefused": "links",
    "ManifestFormatError": "spark.operator.manifest",
    "MemoryLimitReached": "spark.watch.memory",
    "NodesFileError": "placement.nodes_file.entries",
    "OffsetFormatError": "spark.admission.offsets",
    "OptionError": "connectors.options",
    "PlacementMismatch": "placement.stored",
    "ProblemError": "placement.problem_checks",
    "ProfileError": "placement.profile",
    "Progress": "engine.progress",
    "QueryProgress": "engine.progress",
    "QueueError": "queue",
    "Run": "engine.run",
    "RunFailed": "engine.errors",
    "RunOptions": "engine.options",
    "RunResult": "engine.result",
    "SinkLogFormatError": "spark.sink.sink_log",
    "SolverMissing": "placement.solver.mip",
    "SparkDied": "engine.errors",
    "SparkUnavailable": "spark.session.start",
    "check": "engine.apps",
    "explain": "engine.apps",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'kigen' has no attribute '{name}'")
    return getattr(import_module(f"kigen.{_MODULES[name]}"), name)
