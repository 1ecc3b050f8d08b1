"""COST n MICROSECONDS: burns that much CPU time per tuple, so that experiments can have queries of any cost."""

from __future__ import annotations

import time

from kigen.spark.spec import RunSpec


def burn(spec: RunSpec, counts: dict[str, dict[str, int]]) -> None:
    """Burns the cost of a step that processed `counts` tuples per query.

    It counts CPU time, so that a busy machine does not make it cheaper.
    """
    asked_us = sum(
        (query.cost_us or 0) * counts[query.name]["in"] for query in spec.app.queries if query.name in counts
    )
    if not asked_us:
        return
    until = time.thread_time_ns() + asked_us * 1000
    value = 1
    while time.thread_time_ns() < until:
        for _ in range(200):
            value = value * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
