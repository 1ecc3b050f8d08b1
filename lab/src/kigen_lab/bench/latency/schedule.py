"""The workload of `kigen bench latency`: when tuples arrive, what is in them, and what Kigen computes.

Arrivals are evenly spaced, so that both sides can compute the scheduled time of any tuple.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOMS = 20
WINDOW_S = 10


@dataclass(frozen=True)
class Load:
    """Queries that run at once, each on its own stream, and the tuples per second of all streams together."""

    queries: int
    rate: int

    @property
    def rate_of_each(self) -> int:
        return max(1, self.rate // self.queries)


def arrival_us(index: int, rate: int) -> int:
    """Returns when a tuple is scheduled, counted from the start of its stream."""
    return index * 1_000_000 // rate


def arrived_by(elapsed_us: int, rate: int) -> int:
    """Returns how many tuples are scheduled up to this time."""
    return max(0, -(-(elapsed_us + 1) * rate // 1_000_000))


def room_of(index: int) -> int:
    return index * 7919 % ROOMS


def temp_of(index: int) -> float:
    return 15.0 + index * 104_729 % 1000 / 100


def app_text(load: Load, folder: str) -> str:
    """Returns the app. Results go into CSV files."""
    rooms = ", ".join(f"room{i}" for i in range(ROOMS))
    return "\n".join(
        f"CREATE STREAM s{i} (room STRING, temp DOUBLE) FROM synthetic (rate = {load.rate_of_each}, seed = {i}, "
        f"room = 'choice({rooms})', temp = 'uniform(15, 25)');\n"
        f"CREATE QUERY q{i} AS SELECT room, AVG(temp) AS mean, COUNT(*) AS n FROM s{i} [RANGE {WINDOW_S} SECONDS] "
        f"GROUP BY room INTO csv (path = '{folder}/q{i}.csv', mode = 'changes');"
        for i in range(load.queries)
    )
