"""Decides where operators run, which routes streams take, and how deadlines are split."""

from kigen.placement.problem import Problem, ProblemLink, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream
from kigen.placement.problem_checks import ProblemError
from kigen.placement.result import LinkLoad, NodeLoad, PlacedTask, Placement

__all__ = [
    "LinkLoad",
    "NodeLoad",
    "PlacedTask",
    "Placement",
    "Problem",
    "ProblemError",
    "ProblemLink",
    "ProblemNode",
    "ProblemOperator",
    "ProblemOutput",
    "ProblemStream",
]
