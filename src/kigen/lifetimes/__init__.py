"""The kernel: blocks of tuples with lifetimes and the operators on them, by the direct (DT) and the negative-tuple (NT)
method. It knows nothing of Spark."""

from kigen.lifetimes.expressions.evaluation import EvaluationError
from kigen.lifetimes.intake import StreamInput
from kigen.lifetimes.runtime import DT, NT, StepResult, TaskRuntime

__all__ = ["DT", "NT", "EvaluationError", "StepResult", "StreamInput", "TaskRuntime"]
