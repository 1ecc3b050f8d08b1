"""Runs a shared join in overload in virtual time, in the rounds that Spark's admission makes.

`SliceAdmission` and, for `fifo`, the policy over tasks decide as on Spark: at the end of a round, tuples beyond BUFFER
are evicted, the oldest first, and the next round takes what the policy says. A round costs f, A, a cost per pass of a
slice, and its tuples. What a round has taken no longer waits, so BUFFER does not count it. Invariant: answered and
dropped queries add up to all that arrived. Cost: about a millisecond per round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kigen.plan.shared_joins.window_hull import window_hull
from kigen.schedule import Completion, PolicySettings, ScheduledTask, make_policy
from kigen.schedule.slices import SliceAdmission, SlicedTask

STREAMS = 2
Arrivals = list[tuple[float, int]]  # (microseconds, stream), in order


@dataclass(frozen=True)
class RoundSetting:
    """The load of `kigen bench shared-joins --overload`, and what a round costs on Spark."""

    windows_s: tuple[float, ...] = (1.0, 2.0, 20.0, 60.0)
    costs_us: tuple[float, ...] = (5_000.0,) * 4  # per tuple of each slice
    rate: float = 40.0  # tuples per second and stream
    buffer: int = 200
    seconds: float = 40.0
    fixed_us: float = 150.0  # f
    task_us: float = 1_000.0  # A
    pass_us: float = 700.0  # per slice that runs in a round
    slice_tuple_us: float = 100.0  # per tuple and slice that runs apart from others
    seed: int = 0

    def arrivals(self) -> Arrivals:
        """Returns Poisson arrivals."""
        found: Arrivals = []
        for stream in range(STREAMS):
            rng = np.random.default_rng((self.seed, stream))
            gaps = rng.exponential(1e6 / self.rate, int(2 * self.rate * self.seconds) + 100)
            at_us = np.cumsum(gaps)
            found += [(float(at), stream) for at in at_us[at_us < self.seconds * 1e6]]
        return sorted(found)


@dataclass
class RoundOutcome:
    """What became of each query's tuples. `rounds` are (start, length) in microseconds."""

    tuples: int
    dropped: list[int]
    rounds: list[tuple[float, float]]
    drops: list[tuple[float, int]]  # (when, queries on tuples)
    orders: list[tuple[float, str]]  # of mandf and admandf, at each round

    @property
    def dropped_in_all(self) -> int:
        return sum(self.dropped)

    def dropped_between(self, from_us: float, until_us: float) -> int:
        """Returns the queries on tuples that were dropped in a span of time."""
        return sum(count for at_us, count in self.drops if from_us <= at_us < until_us)


class _Fifo:
    """`fifo`: the policy over tasks, with the join as one task."""

    order = "fifo"

    def __init__(self, setting: RoundSetting) -> None:
        task = ScheduledTask("join", cost_us=sum(setting.costs_us))
        self._policy = make_policy("fifo", [task], PolicySettings(fixed_us=2_000.0))
        self._setting, self._given = setting, 0
        self._waiting: list[int] = []  # stream of each, oldest first

    def arrived(self, at_us: float, stream: int) -> None:
        self._policy.arrived(0, 1, at_us)
        self._waiting.append(stream)

    def evict(self) -> list[int]:
        lost = 0
        for stream in range(STREAMS):
            for _ in range(self._waiting.count(stream) - self._setting.buffer):
                self._waiting.remove(stream)
                self._policy.evict(0, 1)
                lost += 1
        return [lost] * len(self._setting.costs_us)

    def next(self, now_us: float) -> float | None:
        """Returns what the round's task takes; None: nothing waits."""
        self._given = sum(count for _, count in self._policy.next(now_us).admit) if self._waiting else 0
        del self._waiting[: self._given]
        s = self._setting
        return s.task_us + s.pass_us + self._given * sum(s.costs_us) if self._given else None

    def completed(self, now_us: float, elapsed_us: float, task_us: float) -> None:
        self._policy.completed(Completion(now_us, elapsed_us, [(0, self._given)], 0, [task_us]))


class _Sliced:
    """A policy over slices."""

    def __init__(self, setting: RoundSetting, policy: str, settings: PolicySettings) -> None:
        queues = tuple(ScheduledTask(f"slice {i}", cost_us=us) for i, us in enumerate(setting.costs_us))
        task = SlicedTask(queues, (setting.buffer,) * STREAMS, window_hull(setting.windows_s))
        self._admission, self._setting = SliceAdmission(policy, [task], settings), setting
        self._given_up = [0] * len(queues)

    @property
    def order(self) -> str:
        return str(next(iter(self._admission.report()["orders"].values()), ""))

    def arrived(self, at_us: float, stream: int) -> None:
        self._admission.arrived(0, stream, 1, 0, at_us)

    def evict(self) -> list[int]:
        lost = [now - before for now, before in zip(self._admission.given_up(0), self._given_up, strict=True)]
        self._given_up = list(self._admission.given_up(0))
        for stream in range(STREAMS):
            first, end = self._admission.waiting(0, stream)
            if end - first > self._setting.buffer:
                gone = self._admission.evicted(0, stream, end - first - self._setting.buffer)
                lost = [a + b for a, b in zip(lost, gone, strict=True)]
        return lost

    def next(self, now_us: float) -> float | None:
        units, s = self._admission.next(now_us).get(0, []), self._setting
        if not units:
            return None
        ran = [sum(u.count for u in units if u.low <= at < u.high) for at in range(len(s.costs_us))]
        apart = s.slice_tuple_us if len(set(ran)) > 1 else 0.0  # slices of the same tuples are one pass
        passes = len({count for count in ran if count})
        tuples_us = sum(count * (us + apart) for count, us in zip(ran, s.costs_us, strict=True))
        return s.task_us + s.pass_us * passes + tuples_us

    def completed(self, now_us: float, elapsed_us: float, task_us: float) -> None:
        self._admission.completed(elapsed_us, {0: task_us})


def simulate_rounds(
    setting: RoundSetting,
    policy: str,
    settings: PolicySettings | None = None,
    arrivals: Sequence[tuple[float, int]] = (),
) -> RoundOutcome:
    """Runs a policy until all that arrived is answered or dropped. `arrivals`: others than the setting's own."""
    given = settings or PolicySettings(fixed_us=2_000.0)
    driver: _Fifo | _Sliced = _Fifo(setting) if policy == "fifo" else _Sliced(setting, policy, given)
    coming = list(arrivals or setting.arrivals())
    out = RoundOutcome(len(coming), [0] * len(setting.costs_us), [], [], [])
    now_us, fed = 0.0, 0
    while True:
        while fed < len(coming) and coming[fed][0] <= now_us:
            driver.arrived(*coming[fed])
            fed += 1
        lost = driver.evict()
        task_us = driver.next(now_us)
        if sum(lost):
            out.drops.append((now_us, sum(lost)))
            out.dropped = [a + b for a, b in zip(out.dropped, lost, strict=True)]
        if task_us is None:
            if fed == len(coming):
                return out
            now_us = coming[fed][0]
            continue
        elapsed_us = setting.fixed_us + task_us
        out.rounds.append((now_us, elapsed_us))
        out.orders.append((now_us, driver.order))
        now_us += elapsed_us
        driver.completed(now_us, elapsed_us, task_us)
