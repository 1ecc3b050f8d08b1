from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
from kigen.engine.checkpoint.owner import CheckpointInUse
from kigen.engine.engine import Engine
from kigen.engine.options import LIFETIMES, ArgumentError, RunOptions
from kigen.engine.result import Progress, RunResult
from kigen.engine.run import Run, RunFailed, SparkDied

__all__ = [
    "LIFETIMES",
    "ArgumentError",
    "CheckpointInUse",
    "CheckpointMismatch",
    "Engine",
    "Progress",
    "Run",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "SparkDied",
]
