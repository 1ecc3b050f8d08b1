"""Builds the collision warning of Yamaguchi et al., figure 2: three outputs, two nodes, and O3 free to run on either.

The figure is lost, so the connections of O7..O21 are not known. `SHAPES` holds the possible readings: one chain;
branches O7..O20 that meet again in O21; branches that each give a warning of their own.
"""

from __future__ import annotations

from typing import Literal

from kigen.placement.problem import Problem, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream, both_ways

Shape = Literal["chain", "branches", "outputs"]
SHAPES: tuple[Shape, ...] = ("chain", "branches", "outputs")
TUPLE_US = 1000.0
SENSOR_TUPLES, CENTRE_TUPLES = 10, 100
CONTROL_US, WARNING_US, INFORMATION_US = 30_000.0, 300_000.0, 3_000_000.0


def paper_example(
    n: int = 15, shape: Shape = "chain", fixed_o3: str | None = None, speeds: tuple[float, float] = (1.0, 1.0)
) -> Problem:
    """Returns the problem with `n` V2V tuples at once.

    `fixed_o3` pins O3 to `node1` or `node2`, as the other allocations of the paper do.
    """
    streams = [
        ProblemStream("sensors", ("node1",), SENSOR_TUPLES),
        ProblemStream("v2v", ("node1",), n),
        ProblemStream("centre", ("node2",), CENTRE_TUPLES),
    ]
    operators = [
        _operator("O1", "sensors", node="node1"),
        _operator("O2", "v2v", node="node1"),
        _operator("O3", "s2", selectivity=0.5, node=fixed_o3),
        _operator("O4", "s3"),
        _operator("O6", "centre"),
        _operator("O5", "s6"),
    ]
    outputs = [ProblemOutput("out1", "s1", "node1", CONTROL_US)]
    tail = range(7, 22)
    if shape == "chain":
        operators += [_operator(f"O{i}", "s4" if i == 7 else f"s{i - 1}") for i in tail]
        outputs.append(ProblemOutput("out2", "s21", "node2", WARNING_US))
    elif shape == "branches":
        operators += [_operator(f"O{i}", "s4") for i in tail[:-1]]
        meeting = tuple(f"s{i}" for i in tail[:-1])
        operators.append(ProblemOperator("O21", meeting, "s21", TUPLE_US, nodes=("node2",), waits=True))
        outputs.append(ProblemOutput("out2", "s21", "node2", WARNING_US))
    else:
        operators += [_operator(f"O{i}", "s4") for i in tail]
        outputs += [ProblemOutput(f"out2.{i}", f"s{i}", "node2", WARNING_US) for i in tail]
    outputs.append(ProblemOutput("out3", "s5", "node2", INFORMATION_US))
    streams += [ProblemStream(op.output) for op in operators]
    nodes = (ProblemNode("node1", speeds[0]), ProblemNode("node2", speeds[1]))
    return Problem(nodes, both_ways("node1", "node2"), tuple(streams), tuple(operators), tuple(outputs))


def _operator(name: str, source: str, selectivity: float = 1.0, node: str | None = "node2") -> ProblemOperator:
    return ProblemOperator(name, (source,), f"s{name[1:]}", TUPLE_US, selectivity, () if node is None else (node,))
