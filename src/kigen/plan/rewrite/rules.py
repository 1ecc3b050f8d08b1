"""The rewrite rules in their order, and `rewrite`, which applies them to the queries of an app.

A rule takes the roots of queries that may share sub-plans and gives as many roots. Invariant: each root gives the same
rows with the same lifetimes and column names at every instant, raises on no row on which it did not raise before, and a
sub-plan that several places share is still shared afterwards. A new rule is a file here and a line in RULES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kigen.plan.logical import PlanNode, Query
from kigen.plan.rewrite.guard_filters import guard_filters
from kigen.plan.rewrite.join_conditions import join_conditions
from kigen.plan.rewrite.push_filters import push_filters

Rule = Callable[[list[PlanNode]], list[PlanNode]]

RULES: tuple[Rule, ...] = (
    guard_filters,  # what cannot raise below what might: only the former moves
    push_filters,
    join_conditions,  # what stopped above a join because it reads both sides
)


def rewrite(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """The same queries, rewritten. Queries that share nothing (`Query.apart`) are rewritten apart."""
    done: dict[str, Query] = {}
    for apart in dict.fromkeys(q.apart for q in queries):
        group = [q for q in queries if q.apart == apart]
        roots = [q.root for q in group]
        for rule in RULES:
            roots = rule(roots)
        done |= {query.name: replace(query, root=root) for query, root in zip(group, roots, strict=True)}
    return tuple(done[query.name] for query in queries)
