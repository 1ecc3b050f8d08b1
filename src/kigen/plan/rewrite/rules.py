"""Lists the rewrite rules in their order; `rewrite` applies them to the queries of an app.

A rule takes the roots of queries that may share sub-plans and returns as many roots. Invariant: each root has the same
rows with the same lifetimes and column names at every instant, raises on no row on which it did not raise before, and a
sub-plan that was shared is still shared afterwards. A new rule is a file here and a line in RULES.
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
    guard_filters,  # separates conditions that cannot raise, which may move, from those that might
    push_filters,
    join_conditions,  # takes what stopped above a join because it reads both sides
)


def rewrite(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """Returns the same queries, rewritten. Groups of queries that share nothing (`Query.sharing_group`) are rewritten
    separately."""
    done: dict[str, Query] = {}
    for shared in dict.fromkeys(q.sharing_group for q in queries):
        group = [q for q in queries if q.sharing_group == shared]
        roots = [q.root for q in group]
        for rule in RULES:
            roots = rule(roots)
        done |= {query.name: replace(query, root=root) for query, root in zip(group, roots, strict=True)}
    return tuple(done[query.name] for query in queries)
