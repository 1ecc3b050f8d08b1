"""Blocks of tuples with lifetimes and the operators on them, direct (DT) and negative-tuple (NT); no Spark."""

from kigen.lifetimes.expressions import EvaluationError
from kigen.lifetimes.intake import StreamInput
from kigen.lifetimes.runtime import DT, NT, StepResult, TaskRuntime

__all__ = ["DT", "NT", "EvaluationError", "StepResult", "StreamInput", "TaskRuntime"]
