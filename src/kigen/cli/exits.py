"""Which error is which exit code, and that a user sees its message, never a stack trace."""

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
    "CannotCut",
    "PlacementMismatch",
    "NodeRefused",
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
    """By class name along the hierarchy: the classes of the engine are not imported by commands that need no Spark."""
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
