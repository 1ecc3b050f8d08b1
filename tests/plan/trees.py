"""Writes plans as lines of text, for tests of where each node is."""

from __future__ import annotations

from kigen.plan import bind
from kigen.plan.logical import Aggregate, PlanNode

STREAMS = """
CREATE STREAM a (x BIGINT, p DOUBLE, s STRING, t TIMESTAMP) FROM synthetic (rate = 10);
CREATE STREAM b (y BIGINT, q DOUBLE, r STRING, u TIMESTAMP) FROM synthetic (rate = 10);
CREATE STREAM c (x BIGINT, y BIGINT, n BIGINT) FROM synthetic (rate = 10);
"""


def plan(*bodies: str) -> PlanNode:
    """Returns the plan of the last query."""
    return bind(STREAMS + "".join(f"CREATE QUERY q{i} AS {body};" for i, body in enumerate(bodies))).queries[-1].root


def tree(node: PlanNode, depth: int = 0) -> list[str]:
    """Returns one line per node, with children indented by two. Streams are left out, because a window shows its
    own."""
    children = [node.child] if isinstance(node, Aggregate) else list(node.children)
    if node.label().startswith("window"):
        stream = children[0].label().removeprefix("stream ")
        below = [] if stream in "abc" else tree(children[0], depth + 1)
        return ["  " * depth + f"{stream} {node.label().removeprefix('window ')}", *below]
    return ["  " * depth + node.label(), *(line for child in children for line in tree(child, depth + 1))]


def lines(text: str) -> list[str]:
    """Returns the lines of a block of text in the form of `tree`."""
    found = [line for line in text.splitlines() if line.strip()]
    indent = min(len(line) - len(line.lstrip()) for line in found)
    return [line[indent:] for line in found]
