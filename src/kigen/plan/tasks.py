"""Groups queries into tasks: queries that share state. Each task runs as one keyed operator on Spark, with its own
clock.

Two queries belong to one task if they have a window, or anything above a window, in common; reading the same stream is
not sharing. A query with a FIRM deadline shares only with others of the same FIRM deadline, because its windows may
lack tuples that the others hold. Joins that differ only in their windows become one first
(kigen.plan.shared_joins.sharing), so their queries belong to one task as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kigen.plan.logical import App, PlanNode, Query, Scan
from kigen.plan.shared_joins.sharing import share_joins

_NAME = "task"


@dataclass(frozen=True)
class Task:
    name: str
    queries: tuple[Query, ...]
    first_number: int = 0  # the operators' numbers begin after it
    # All queries that the task began with, if some were dropped since: operators keep their numbers and columns.
    former: tuple[Query, ...] = ()

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({s for q in self.queries for s in q.streams}))

    @property
    def deadline_us(self) -> int | None:
        return min((q.deadline_us for q in self.queries if q.deadline_us is not None), default=None)

    @property
    def drop_us(self) -> int | None:
        """Returns after how long a tuple is worthless to all queries, if that differs from the deadline."""
        return max((q.drop_us for q in self.queries if q.drop_us is not None), default=None)

    def without(self, dropped: Iterable[str]) -> Task:
        """Returns the task without these queries. The plans of the others, and their state, stay as they are."""
        gone = set(dropped)
        left = tuple(query for query in self.queries if query.name not in gone)
        return self if left == self.queries else replace(self, queries=left, former=self.former or self.queries)


def task_number(name: str) -> int:
    """Returns the number in a task's name. No two tasks of a checkpoint ever have the same."""
    return int(name.removeprefix(_NAME))


def extract_tasks(app: App, first_task: int = 0) -> tuple[Task, ...]:
    """Groups the app's queries by shared sub-plans, in the order of their first query. Their plans are the ones that
    run. An app on a checkpoint has its tasks already."""
    if app.tasks:
        return app.tasks
    groups: list[tuple[list[Query], set[PlanNode]]] = []
    for query in share_joins(app.queries) if app.sharing else app.queries:
        nodes = {n for n in query.root.walk() if not isinstance(n, Scan)}
        members, held, apart = [query], set(nodes), []
        for group in groups:
            if group[1] & nodes and group[0][0].sharing_group == query.sharing_group:
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
        tasks.append(Task(f"{_NAME}{first_task + i}", tuple(queries), number))
        if app.first_number:  # otherwise, numbers need to differ only within a task
            number += len({n for query in queries for n in query.root.walk()})
    return tuple(tasks)
