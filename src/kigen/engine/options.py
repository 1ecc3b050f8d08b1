"""How a run is to be done: checked before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kigen.durable import POWER, durability_of
from kigen.schedule import DEFAULT_POLICY, PolicySettings, read_policy
from kigen.spark.spec import BATCH_ROWS, INLINE_BYTES
from kigen.spark.watch.memory import DEFAULT_MEMORY, SizeError, limit_bytes

LIFETIMES = ("dt", "nt")


class ArgumentError(ValueError):
    """An argument of a run that cannot be: exit code 2."""


def _setting(name: str, default: int) -> int:
    """Sizes that only tests and measurements change."""
    return int(os.environ.get(name, default))


@dataclass(frozen=True)
class RunOptions:
    drain: bool = True
    output: str | None = None  # a directory for <query>.csv
    checkpoint: str | None = None
    lifetime: str = "dt"
    policy: str = DEFAULT_POLICY  # a name, and settings after a colon: ats:kp=1,ki=10,phi=100ms
    duration_s: float | None = None
    memory: str | int = (
        DEFAULT_MEMORY  # of all workers of the run: bytes, a size such as 4GB, or a share of the machine
    )
    batch_rows: int = field(default_factory=lambda: _setting("KIGEN_BATCH_ROWS", BATCH_ROWS))
    partitions: int | None = None  # tasks that run at once; None: one a core
    inline_bytes: int = field(default_factory=lambda: _setting("KIGEN_INLINE_BYTES", INLINE_BYTES))
    keep_results: bool = True  # for RunResult.dataframe
    durability: str = POWER  # or "process": what a batch outlives once it is committed
    runtime: str = "kigen.lifetimes:TaskRuntime"

    def __post_init__(self) -> None:
        _one_of("lifetime", self.lifetime, LIFETIMES)
        try:
            read_policy(self.policy)
            durability_of(self.durability)
        except ValueError as error:
            raise ArgumentError(str(error)) from error
        try:
            limit_bytes(self.memory)
        except SizeError as error:
            raise ArgumentError(str(error)) from error
        if self.checkpoint is not None and "://" in self.checkpoint:
            raise ArgumentError(
                f"the checkpoint must be a directory that all of Spark's machines share, not '{self.checkpoint}'"
            )
        if self.duration_s is not None and self.duration_s <= 0:
            raise ArgumentError(f"duration must be above 0, not {self.duration_s}")
        if self.partitions is not None and self.partitions < 1:
            raise ArgumentError(f"at least one partition is needed, not {self.partitions}")
        if self.batch_rows < 1:
            raise ArgumentError(f"a batch must hold at least one tuple, not {self.batch_rows}")

    @property
    def syncs(self) -> bool:
        """Whether what is committed is on the disk, and not only with the operating system."""
        return self.durability == POWER

    @property
    def scheduling(self) -> tuple[str, PolicySettings]:
        return read_policy(self.policy)


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ArgumentError(f"no {what} '{given}': there is {', '.join(known)}")
