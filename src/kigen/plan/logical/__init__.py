"""The logical plan: immutable, typed nodes, compared by structure, so that equal sub-plans are one key in a dict.

Invariant: a node refers to the columns of its children by position (`c0`, `c1`, ...), never by name; the binder has
resolved every name. An expression is text that DuckDB evaluates over those positional columns (docs/decisions/001).
"""

from kigen.plan.logical.app import CHANGES, LINES, LINK, UPSERTS, App, Connector, Query, Shed, SourceStream, columns_of
from kigen.plan.logical.node import BinaryNode, PlanNode, UnaryNode
from kigen.plan.logical.relational import Aggregate, Filter, Join, Project
from kigen.plan.logical.sets import Distinct, Except, Intersect, Matching, OuterJoin, UnionAll
from kigen.plan.logical.single_row import SingleRow
from kigen.plan.logical.streams import (
    WINDOW_END,
    WINDOW_START,
    Received,
    Scan,
    StreamKind,
    Table,
    ToStream,
    Window,
    WindowKind,
)
from kigen.plan.logical.terms import BIRTH, Agg, AggFunc, Comparison, Expr, Place, SortKey
from kigen.plan.logical.top import TopN

__all__ = [
    "BIRTH",
    "CHANGES",
    "LINES",
    "LINK",
    "UPSERTS",
    "WINDOW_END",
    "WINDOW_START",
    "Agg",
    "AggFunc",
    "Aggregate",
    "App",
    "BinaryNode",
    "Comparison",
    "Connector",
    "Distinct",
    "Except",
    "Expr",
    "Filter",
    "Intersect",
    "Join",
    "Matching",
    "OuterJoin",
    "Place",
    "PlanNode",
    "Project",
    "Query",
    "Received",
    "Scan",
    "Shed",
    "SingleRow",
    "SortKey",
    "SourceStream",
    "StreamKind",
    "Table",
    "ToStream",
    "TopN",
    "UnaryNode",
    "UnionAll",
    "Window",
    "WindowKind",
    "columns_of",
]
