"""The operators of the kernel, by the plan node that each one runs. A new operator is a file and one line here."""

from __future__ import annotations

from typing import Any

from kigen.lifetimes import select
from kigen.lifetimes.aggregates.aggregate import AGGREGATE
from kigen.lifetimes.joins.join import JOIN
from kigen.lifetimes.joins.shared_join import SHARED_JOIN
from kigen.lifetimes.joins.shares import JOIN_SHARE
from kigen.lifetimes.joins.unnest import UNNEST
from kigen.lifetimes.operator_spec import OperatorSpec
from kigen.lifetimes.relation_to_stream import TO_STREAM
from kigen.lifetimes.sets.counting import DISTINCT, EXCEPT, INTERSECT, MATCHING
from kigen.lifetimes.sets.over import OVER
from kigen.lifetimes.sets.top import TOP
from kigen.lifetimes.single_row import SINGLE_ROW
from kigen.lifetimes.windows.negatives import WINDOW
from kigen.lifetimes.windows.table_rows import TABLE
from kigen.plan.logical import PlanNode

OPERATORS: tuple[OperatorSpec[Any], ...] = (
    WINDOW,
    TABLE,
    select.FILTER,
    select.PROJECT,
    select.UNION_ALL,
    select.OUTER_JOIN,
    select.CLOCKED,
    JOIN,
    SHARED_JOIN,
    JOIN_SHARE,
    UNNEST,
    AGGREGATE,
    DISTINCT,
    EXCEPT,
    INTERSECT,
    MATCHING,
    SINGLE_ROW,
    TOP,
    OVER,
    TO_STREAM,
)

_BY_NODE = {spec.node: spec for spec in OPERATORS}


def spec_of(node: PlanNode) -> OperatorSpec[Any]:
    """Finds the operator that runs a plan node."""
    spec = _BY_NODE.get(type(node))
    if spec is None:
        raise TypeError(
            f"no operator runs the plan node {type(node).__name__}: add its OperatorSpec to OPERATORS in {__name__}"
        )
    return spec
