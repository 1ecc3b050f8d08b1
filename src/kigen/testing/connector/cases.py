"""What a connector's author tells the checks: a declaration, the rows that are there, and how to read an output."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kigen.plan import bind
from kigen.plan.logical import Query, SourceStream

if TYPE_CHECKING:
    from kigen.connectors.pushed import IngestQueue

SINK_STREAM = "id BIGINT, name STRING, value DOUBLE"  # what a checked sink writes
_IN = f"CREATE STREAM given ({SINK_STREAM}) FROM http ();"


class Nonconforming(AssertionError):
    """A connector breaks a rule that Kigen relies on. The message says which, and what was found."""


def require(holds: object, message: str) -> None:
    """Raises Nonconforming with the message unless the rule holds."""
    if not holds:
        raise Nonconforming(message)


@dataclass(frozen=True)
class SourceCase:
    """A stream with its input, ready to be read.

    Args:
        declaration: The `CREATE STREAM` statement, without `ON ERROR`.
        rows: All good rows: values in the order of the columns, times as `datetime`. None if rows are generated: then
            the first reading counts.
        bad: A text for each bad row of the input that a message about it must contain: its place, such as `in.csv:3`.
        directory: Where relative paths count from.
        live: Read the stream as a run without `--drain` does.
        checkpoint: A directory that a live source may use for records of its own.
        started_us: When the run began. Default: a minute ago, so that the first minute of a generated stream is there.
    """

    declaration: str
    rows: Sequence[tuple[Any, ...]] | None = None
    bad: Sequence[str] = ()
    directory: str | Path = "."
    live: bool = False
    checkpoint: str | Path | None = None
    started_us: int = field(default_factory=lambda: time.time_ns() // 1000 - 60_000_000)

    def stream(self, clause: str = "") -> SourceStream:
        """Returns the stream, declared with one more clause."""
        text = f"{self.declaration.strip().removesuffix(';')} {clause};"
        found = bind(
            f"{text}\nCREATE QUERY q AS SELECT * FROM {_name(text)} [NOW];", "declaration", str(self.directory)
        )
        return found.streams[0]


@dataclass(frozen=True)
class Target:
    """An output that nothing was written to yet.

    Args:
        into: What follows `INTO`: `csv (path = 'out.csv')`.
        read: Returns what readers of the output see now: the columns `id`, `name` and `value` of each row by name, and
            `_op`, `_at`, `_from`, `_to` as far as the output has them. Numbers and times may be text. In the modes
            `upsert` and `current`: the rows that are true now.
        directory: Where relative paths count from.
    """

    into: str
    read: Callable[[], Iterable[Mapping[str, Any]]]
    directory: str | Path = "."

    def query(self, is_stream: bool) -> Query:
        """Returns a query whose results go into the target."""
        select = "SELECT id, name, value FROM given [RANGE 1 SECONDS]"
        text = f"{_IN}\nCREATE QUERY q AS {f'ISTREAM({select})' if is_stream else select} INTO {self.into};"
        return bind(text, "target", str(self.directory)).queries[0]


@dataclass(frozen=True)
class SinkCase:
    """A sink. `target` makes an output for each check; the name that it gets is new each time, and good for a file, a
    table or a topic. `relation`: whether results are a relation, else a stream."""

    target: Callable[[str], Target]
    relation: bool = False


@dataclass(frozen=True)
class ReceiverCase:
    """A pushed stream.

    Args:
        declaration: The `CREATE STREAM` statement.
        send: Sends rows, given as values in the order of the columns, and returns when the sender knows that they are
            safe. A connector without a receiver pushes into the queue that it gets.
        make: Returns the values of row number n.
        directory: Where the queue lies.
        keeps: Whether the sender's side keeps what comes while the run is away.
    """

    declaration: str
    send: Callable[[IngestQueue, Sequence[tuple[Any, ...]]], None]
    make: Callable[[int], tuple[Any, ...]]
    directory: str | Path
    keeps: bool = False

    def stream(self) -> SourceStream:
        """Returns the stream as declared."""
        text = f"{self.declaration.strip().removesuffix(';')};"
        return bind(f"{text}\nCREATE QUERY q AS SELECT * FROM {_name(text)} [NOW];").streams[0]


def _name(declaration: str) -> str:
    return declaration.split("(", 1)[0].split()[-1]
