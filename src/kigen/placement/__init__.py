"""Where operators run, which way streams take, and how deadlines are split."""

from kigen.placement.problem import Link, Node, Operator, Output, Problem, ProblemError, Stream
from kigen.placement.result import LinkLoad, NodeLoad, Placement, Task

__all__ = [
    "Link",
    "LinkLoad",
    "Node",
    "NodeLoad",
    "Operator",
    "Output",
    "Placement",
    "Problem",
    "ProblemError",
    "Stream",
    "Task",
]
