"""Maps errors to exit codes. The user sees the message of an error, not its stack trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kigen.language import CqlErrors

_WRONG_APP_OR_ARGUMENTS = {
    "CqlError",
    "CqlErrors",
    "OptionError",
    "ArgumentError",
    "CheckpointMismatch",
    "CheckpointFormatError",
    "SinkLogFormatError",
    "OffsetFormatError",
    "ManifestFormatError",
    "AppNotFound",
    "NothingToDraw",
    "NodesFileError",
    "ProblemError",
    "ProfileError",
    "LinkRefused",
    "PlacementMismatch",
    "NodeRefused",
    "SolverMissing",
    "MatplotlibMissing",
}
_RUN_FAILED = {
    "InputError",
    "EvaluationError",
    "RunFailed",
    "MemoryLimitReached",
    "CheckpointInUse",
    "SparkUnavailable",
    "ContestantFailed",
    "QueueError",
    "NodeFailed",
    "DamagedFile",
}


@contextmanager
def exit_codes() -> Iterator[None]:
    """Exits with 2 for a wrong app or argument, and with 1 for a failed run. Other errors are faults of Kigen.

    Classes are compared by name along the hierarchy, so that commands without Spark need not import the engine.
    """
    try:
        yield
    except Exception as error:
        names = {c.__name__ for c in type(error).__mro__}
        if names & _WRONG_APP_OR_ARGUMENTS:
            code = 2
        elif names & _RUN_FAILED or isinstance(error, OSError):
            code = 1
        else:
            raise
        sys.stderr.write(f"{_message(error)}\n")
        raise typer.Exit(code) from None


def _message(error: Exception) -> str:
    return error.render() if isinstance(error, CqlErrors) else f"error: {error}"
