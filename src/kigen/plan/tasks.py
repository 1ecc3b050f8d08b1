"""Tasks: the connected groups of queries that share state. Each task runs as one keyed operator on Spark, with its own
clock.

Two queries are of one task when they have a window, or anything above a window, in common; reading the same stream is
not sharing. A query with a FIRM deadline shares with others of the same FIRM deadline only: tuples may be missing from
its windows that the others hold. Joins that differ in their windows are made one first
(kigen.plan.shared_joins.sharing), so their queries are of one task, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from kigen.plan.logical import App, PlanNode, Query, Scan
from kigen.plan.shared_joins.sharing import share_joins


@dataclass(frozen=True)
class Task:
    name: str
    queries: tuple[Query, ...]
    first_number: int = 0  # the operators' numbers begin behind it

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({s for q in self.queries for s in q.streams}))

    @property
    def deadline_us(self) -> int | None:
        return min((q.deadline_us for q in self.queries if q.deadline_us is not None), default=None)


def extract_tasks(app: App) -> tuple[Task, ...]:
    """Group the app's queries by shared sub-plans, in the order of their first query. Their plans are those that
    run."""
    groups: list[tuple[list[Query], set[PlanNode]]] = []
    for query in share_joins(app.queries) if app.sharing else app.queries:
        nodes = {n for n in query.root.walk() if not isinstance(n, Scan)}
        members, held, apart = [query], set(nodes), []
        for group in groups:
            if group[1] & nodes and group[0][0].apart == query.apart:
                members = group[0] + members
                held |= group[1]
            else:
                apart.append(group)
        groups = [*apart, (members, held)]
    order = {q.name: i for i, q in enumerate(app.queries)}
    ordered = [sorted(g[0], key=lambda q: order[q.name]) for g in groups]
    ordered.sort(key=lambda g: order[g[0].name])
    tasks, number = [], app.first_number
    for i, queries in enumerate(ordered):
        tasks.append(Task(f"task{i}", tuple(queries), number))
        if app.first_number:  # alone, a task's numbers need to differ within it only
            number += len({n for query in queries for n in query.root.walk()})
    return tuple(tasks)
