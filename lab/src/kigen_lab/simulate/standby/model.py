"""The paper's experiment as plain values: a source U, replicas N and N.1, a reader D, links between them, and the
outcome of one trial.

Tuples are records of 33 bytes: milliseconds of the day, sensor, temperature, pressure, quality, as text. Batches of
them are compressed by the codecs of real queues, so bytes are real. Everything random comes from the trial's seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kigen.replicas.standby_kind import StandbyKind

TUPLE_BYTES = 33
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StandbySetting:
    standby: StandbyKind
    rate: float = 100.0  # tuples per second, Poisson
    window_us: float = 0.0  # RANGE of N's window, with one result per tuple; 0: selection
    selectivity: float = 0.5
    ack_us: float = 250_000.0  # mean time between D's acks
    regular_acks: bool = False  # exactly that time; otherwise exponential, since acks follow commits, and those vary
    cost_us: float = 2_000.0  # per tuple, at N and N.1
    delay_us: float = 500.0  # of a link
    bandwidth: float = 12.5e6  # bytes per second
    header_bytes: int = 66  # per message on the wire, beside its tuples
    connect_us: tuple[float, float] = (80_000.0, 15_000.0)  # a new connection: mean, sd
    kill_us: float = 30e6
    ping_us: float = 100_000.0  # between two questions whether a server is there
    silence_us: float = 350_000.0  # a server that does not answer for so long counts as gone
    look_us: float = 50_000.0  # between two looks of a replica at its role and its acks
    report_us: float = 1e6  # between two acks to the server that is not followed
    seed: int = 0


@dataclass(frozen=True)
class StandbyOutcome:
    """Bytes until the kill, and times after it. Overheads are shares of the leader's bytes, as in the paper."""

    tuples: int
    primary_bytes: int  # U -> N and N -> D, tuples only
    backup_bytes: int  # batches and copies for N.1
    primary_wire: int  # with headers, acks and pings of the undisturbed path
    backup_wire: int
    batched: int  # tuples in batches
    detection_us: float  # from the kill until D leaves N
    reconnection_us: float  # from detection until D follows N.1, and N.1 follows U as the leader
    recovery_us: float  # from detection until D has every result of what U held then
    secondary_work: float  # tuples that N.1 worked off before the kill, as a share of those of N
    kept_most: int  # tuples at U
    exact: bool  # D has exactly the results of the undisturbed run

    @property
    def overhead(self) -> float:
        return self.backup_bytes / self.primary_bytes

    @property
    def overhead_of_all(self) -> float:
        """Share of all traffic, by Hwang's definition."""
        return self.backup_bytes / (self.backup_bytes + self.primary_bytes)

    @property
    def overhead_wire(self) -> float:
        return self.backup_wire / self.primary_wire

    @property
    def data_recovery_us(self) -> float:
        return self.recovery_us - self.reconnection_us


@dataclass(frozen=True)
class Drawn:
    """What is random in one trial: arrivals, records, which tuples pass, when D acknowledges, how long connecting
    takes, and when N dies."""

    times_us: Floats
    records: bytes
    passed: npt.NDArray[np.int64]  # how many of the first n tuples pass
    alive_from: npt.NDArray[np.int64]  # the oldest tuple alive in the window at tuple n
    acks_us: Floats
    connects_us: tuple[float, float]
    kill_us: float


def draw_trial(setting: StandbySetting, span_us: float) -> Drawn:
    chance = np.random.default_rng([setting.seed, 7])
    expected = int(setting.rate * span_us / 1e6 * 1.2) + 100
    times = np.cumsum(chance.exponential(1e6 / setting.rate, expected))
    times = times[times < span_us]
    size = len(times)
    columns = (
        (38_923_417 + times / 1e3).astype(np.int64) % 100_000_000,
        chance.integers(0, 100_000, size),
        np.clip(chance.normal(21, 5, size), 0, 99),
        np.clip(chance.normal(1013, 9, size), 0, 9999),
        chance.integers(0, 100, size),
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    records = b"".join(b"%08d %05d %07.4f %07.2f %02d" % row for row in rows)
    passes = chance.random(size) < (1.0 if setting.window_us else setting.selectivity)
    gaps = np.full(expected, setting.ack_us) if setting.regular_acks else chance.exponential(setting.ack_us, expected)
    mean, spread = setting.connect_us
    connects = np.maximum(chance.normal(mean, spread, 2), mean / 4)
    kill_us = setting.kill_us + float(chance.uniform(0, 1e6))
    alive_from = np.searchsorted(times, times - setting.window_us, side="right")
    cumulated = np.concatenate(([0], np.cumsum(passes)))
    return Drawn(
        times, records, cumulated, alive_from, np.cumsum(gaps), (float(connects[0]), float(connects[1])), kill_us
    )
