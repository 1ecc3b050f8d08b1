"""COST n MICROSECONDS: burns that much CPU time per tuple, so that experiments can have queries of any cost."""

from __future__ import annotations

import time


def burn(costs_us: dict[str, int], counts: dict[str, dict[str, int]]) -> None:
    """Burns the cost of a step that processed `counts` tuples per query. `costs_us` has the queries with a COST.

    It counts CPU time, so that a busy machine does not make it cheaper.
    """
    asked_us = sum(cost_us * counts[query]["in"] for query, cost_us in costs_us.items() if query in counts)
    if not asked_us:
        return
    until = time.thread_time_ns() + asked_us * 1000
    value = 1
    while time.thread_time_ns() < until:
        for _ in range(200):
            value = value * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
