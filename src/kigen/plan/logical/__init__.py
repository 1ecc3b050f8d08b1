"""The logical plan: immutable, typed nodes, compared by structure, so that equal sub-plans are one key in a dict.

Invariant: a node refers to the columns of its children by position (`c0`, `c1`, ...), never by name; the binder has
resolved every name. An expression is text that DuckDB evaluates over those positional columns (docs/decisions/001).
"""

from kigen.plan.logical.app import CHANGES, LINES, LINK, UPSERTS, App, Connector, Query, Shed, SourceStream, columns_of
from kigen.plan.logical.clocked import Clocked
from kigen.plan.logical.functions import Function, calls_python, own_calls, with_own_names
from kigen.plan.logical.node import BinaryNode, PlanNode, UnaryNode
from kigen.plan.logical.over import Over, OverCall, OverFunc
from kigen.plan.logical.relational import Aggregate, Filter, Join, Project
from kigen.plan.logical.set_apart import SetApart, errors_name
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
from kigen.plan.logical.terms import BIRTH, NULL_ON_OVERFLOW, Agg, AggFunc, Comparison, Expr, Place, SortKey
from kigen.plan.logical.top import TopN
from kigen.plan.logical.unnest import Unnest

__all__ = [
    "BIRTH",
    "CHANGES",
    "LINES",
    "LINK",
    "NULL_ON_OVERFLOW",
    "UPSERTS",
    "WINDOW_END",
    "WINDOW_START",
    "Agg",
    "AggFunc",
    "Aggregate",
    "App",
    "BinaryNode",
    "Clocked",
    "Comparison",
    "Connector",
    "Distinct",
    "Except",
    "Expr",
    "Filter",
    "Function",
    "Intersect",
    "Join",
    "Matching",
    "OuterJoin",
    "Over",
    "OverCall",
    "OverFunc",
    "Place",
    "PlanNode",
    "Project",
    "Query",
    "Received",
    "Scan",
    "SetApart",
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
    "Unnest",
    "Window",
    "WindowKind",
    "calls_python",
    "columns_of",
    "errors_name",
    "own_calls",
    "with_own_names",
]
