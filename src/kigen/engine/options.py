"""Options of a run. They are checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kigen.durable import POWER, durability_of
from kigen.engine import defaults
from kigen.engine.errors import ArgumentError
from kigen.engine.progress import Progress
from kigen.schedule import PolicySettings, read_policy
from kigen.spark.spec import BATCH_ROWS, INLINE_BYTES
from kigen.spark.watch.memory import SizeError, limit_bytes


@dataclass(frozen=True)
class RunOptions:
    """Options of a run: the keyword arguments of `Engine.run` and `Engine.start`.

    The defaults are those of `kigen run`. `keep_results` is the exception: the command keeps no results.

    Attributes:
        drain: Processes all that finite sources hold, in event-time order, then ends. A drain drops no tuple.
            Without it, synthetic streams arrive as time passes and `policy` decides which tuples a batch admits.
        output: Directory in which each query also writes `<query>.csv`.
        checkpoint: Directory from which a run that was stopped or killed continues. All machines of the Spark cluster
            must share it.
        lifetime: How deaths travel: "dt", with the tuple, or "nt", as negative tuples.
        policy: Name of the policy that admits tuples of live streams, with settings after a colon:
            "ats:kp=1,ki=10,phi=100ms".
        duration_s: Seconds after which the run ends.
        memory: Limit for the memory of all workers of the run: bytes, a size such as "4GB", or a share of the machine.
        durability: What a committed batch survives: "power", a power cut, or "process", a kill of the process.
        epoch_s: Length of an epoch in seconds. Live streams are processed in rounds of milliseconds, and Spark commits
            the state once per epoch. 0: every round is a micro-batch of its own.
        lanes: Number of rounds that run at once. None: one per core, but at least one slot of Spark stays free.
        keep_results: Keeps results for `RunResult.dataframe`, `to_arrow`, `to_pandas` and `to_polars`.
        keep_changes_s: Keeps the changes of each query for this many seconds and its current relation, for readers
            that follow them (`Run.followed`). None: neither.
        on_progress: Function that is called with a `Progress` every `progress_every_s` seconds and once at the end,
            always from one thread. If it raises, the run continues and the first error is logged.
        progress_every_s: Seconds between two calls of `on_progress`.
        partitions: Number of tasks that run at once. None: one per core.
        batch_rows: Tuples of a batch of finite sources, for the first batch. None: 500,000.
        inline_bytes: Size up to which a snapshot is part of Spark's state; a larger one is a file. None: 64 KiB.
        runtime: Class that runs a task, as "module:class". Tests replace it.
        no_change: Refuses a checkpoint of another app. Otherwise a changed app continues from it: unchanged queries
            keep their state, dropped ones end, added ones start from now.
        replay_from: Time from which queries that a change adds see tuples, where the sources keep them.
        allow: What changes that come over HTTP may name beside what the app names: paths, functions as
            "module:function", and environment variables as "$NAME".

    Raises:
        ArgumentError: An option has a value that is not possible.

    >>> kigen.RunOptions(drain=True, memory="4GB").policy
    'pack'
    """

    drain: bool = defaults.DRAIN
    output: str | Path | None = None
    checkpoint: str | Path | None = None
    lifetime: str = defaults.LIFETIME
    policy: str = defaults.POLICY
    duration_s: float | None = None
    memory: str | int = defaults.MEMORY
    durability: str = defaults.DURABILITY
    epoch_s: float = defaults.EPOCH_S
    lanes: int | None = None
    keep_results: bool = True
    keep_changes_s: float | None = None
    on_progress: Callable[[Progress], None] | None = None
    progress_every_s: float = defaults.PROGRESS_EVERY_S
    partitions: int | None = None
    batch_rows: int | None = None
    inline_bytes: int | None = None
    runtime: str = defaults.RUNTIME
    no_change: bool = False
    replay_from: str | datetime | None = None
    allow: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.lifetime not in defaults.LIFETIMES:
            raise ArgumentError(f"lifetime '{self.lifetime}' is not known: use one of {', '.join(defaults.LIFETIMES)}")
        try:
            read_policy(self.policy)
            durability_of(self.durability)
            limit_bytes(self.memory)
        except (ValueError, SizeError) as error:
            raise ArgumentError(str(error)) from error
        if self.checkpoint is not None and "://" in str(self.checkpoint):
            raise ArgumentError(
                f"the checkpoint must be a directory that all machines of Spark share, not '{self.checkpoint}'"
            )
        if self.duration_s is not None and self.duration_s <= 0:
            raise ArgumentError(f"duration must be above 0, not {self.duration_s}")
        if self.keep_changes_s is not None and self.keep_changes_s <= 0:
            raise ArgumentError(f"keep_changes_s must be above 0, not {self.keep_changes_s}")
        if self.progress_every_s <= 0:
            raise ArgumentError(f"progress_every_s must be above 0, not {self.progress_every_s}")
        if self.partitions is not None and self.partitions < 1:
            raise ArgumentError(f"at least one partition is required, not {self.partitions}")
        if self.epoch_s < 0:
            raise ArgumentError(f"an epoch takes 0 s (a batch per round) or longer, not {self.epoch_s}")
        if self.lanes is not None and self.lanes < 1:
            raise ArgumentError(f"at least one lane is required, not {self.lanes}")
        self.replay_us  # noqa: B018 - raises ArgumentError
        if self.first_batch_rows < 1:
            raise ArgumentError(f"a batch must hold at least one tuple, not {self.first_batch_rows}")

    @property
    def replay_us(self) -> int | None:
        """`replay_from` in microseconds since 1970."""
        return None if self.replay_from is None else instant_us(self.replay_from)

    @property
    def syncs(self) -> bool:
        """Whether a commit waits for the disk, and not only for the operating system."""
        return self.durability == POWER

    @property
    def scheduling(self) -> tuple[str, PolicySettings]:
        """Name and settings of the policy."""
        return read_policy(self.policy)

    @property
    def first_batch_rows(self) -> int:
        """`batch_rows`, or its default. Tests and measurements may set another default in the environment."""
        return _default("KIGEN_BATCH_ROWS", BATCH_ROWS) if self.batch_rows is None else self.batch_rows

    @property
    def largest_inline_bytes(self) -> int:
        """`inline_bytes`, or its default. Tests and measurements may set another default in the environment."""
        return _default("KIGEN_INLINE_BYTES", INLINE_BYTES) if self.inline_bytes is None else self.inline_bytes


def _default(variable: str, default: int) -> int:
    return int(os.environ.get(variable, default))


def instant_us(given: str | datetime) -> int:
    """Returns a time in microseconds since 1970. A time without a zone is UTC."""
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ArgumentError(
            f"replay_from '{given}' is not a time: write it as in ISO 8601, for example 2026-11-18T09:00:00Z"
        ) from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
