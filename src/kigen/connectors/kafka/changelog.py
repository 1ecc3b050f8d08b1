"""Reads a changelog: `CREATE TABLE ... FROM kafka (..., mode = 'upsert')`. The newest message of a key is its row.

A message without a value (a tombstone) removes the row. The first version is what is true at the ends of all partitions
found at the start; each later look at the topic gives the changes since. The offsets are noted with every version, so a
run that continues reads on from there. Invariant: a version is what the messages before its offsets say, however they
were cut. Cost: one Python dictionary entry per key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kigen.connectors.kafka.client import ClientOptions
from kigen.connectors.kafka.cluster import Cluster
from kigen.connectors.kafka.path import between
from kigen.connectors.kafka.range_consumer import Message, RangeConsumer
from kigen.connectors.kafka.source import KafkaSource
from kigen.connectors.requests import ReadTable, SourceRequest
from kigen.connectors.source_base import InputError
from kigen.connectors.table.versions import KeptTable
from kigen.lifetimes.windows.table_rows import ROW
from kigen.plan.logical import SourceStream
from kigen.plan.types import arrow_schema

KEY = "_key"  # column of a version: the key of the message that a row came from
_FIRST_ANSWER_S = 30.0
_MESSAGES = 100_000  # read at once
Offsets = dict[str, int]


class Changelog:
    """A reader of one changelog."""

    def __init__(self, stream: SourceStream, directory: str) -> None:
        self.stream = stream
        self._source = KafkaSource(SourceRequest(replace(stream, timestamp=None), directory, True, None, None))
        options = ClientOptions(f"table '{stream.name}'", stream.source, directory)
        self._options, self._cluster = options, Cluster(options)
        self._consumer: RangeConsumer | None = None
        self._rows: dict[bytes, int] = {}  # key -> number of its row
        self._read_to: Offsets = {}  # beyond the offsets of the newest version, if nothing has changed since

    def first(self) -> tuple[pa.Table, dict[str, Any]]:
        """Returns the first version, with the keys, and the offsets after it."""
        partitions = self._cluster.wait_for(_FIRST_ANSWER_S)
        starts = self._cluster.starts(partitions, "earliest")
        ends = {name: max(end, starts[name]) for name, end in self._cluster.ends(partitions).items()}
        newest = self._newest(starts, ends)
        return self._table([message for message in newest.values() if message.value() is not None]), {"offsets": ends}

    def follow(self, table: KeptTable) -> bool:
        """Adds a version with what has come since the table's newest one. Returns whether there is any."""
        now = table.now
        if not self._rows:
            keys = now.rows.column(KEY).to_pylist()
            self._rows = dict(zip(keys, now.rows.column(ROW).to_pylist(), strict=True))
        starts: Offsets = self._read_to or dict(now.about["offsets"])
        partitions = sorted({*starts, *self._cluster.partitions()})
        ends = {name: max(end, starts.get(name, 0)) for name, end in self._cluster.ends(partitions).items()}
        if ends == starts:
            return False
        newest = self._newest(starts, ends)
        born = self._table([message for message in newest.values() if message.value() is not None])
        same = self._unchanged(now.rows, born)
        dead = [self._rows[key] for key in newest if key in self._rows and key not in same]
        born = born.filter(pa.array([key not in same for key in born.column(KEY).to_pylist()], pa.bool_()))
        first = now.next_row
        table.add(pa.array(dead, pa.int64()), born, {"offsets": ends})
        self._read_to = ends
        for key in newest:
            if key not in same:
                self._rows.pop(key, None)
        self._rows |= {key: first + place for place, key in enumerate(born.column(KEY).to_pylist())}
        return True

    def _unchanged(self, rows: pa.Table, born: pa.Table) -> set[bytes]:
        """Returns the keys whose new message says what is true already."""
        columns = arrow_schema(self.stream.schema).names
        places = {row: place for place, row in enumerate(rows.column(ROW).to_pylist())}
        pairs = [(i, places[self._rows[k]]) for i, k in enumerate(born.column(KEY).to_pylist()) if k in self._rows]
        if not pairs:
            return set()
        new, old = (pa.array(side, pa.int64()) for side in zip(*pairs, strict=True))
        before, after = rows.select(columns).take(old).to_pylist(), born.select(columns).take(new).to_pylist()
        keys = born.column(KEY).take(new).to_pylist()
        return {key for key, a, b in zip(keys, before, after, strict=True) if repr(a) == repr(b)}

    def _newest(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> dict[bytes, Message]:
        """Returns the newest message of each key. A key is always in the same partition."""
        if self._consumer is None:
            self._consumer = RangeConsumer(self._options.config(), self._options.owner)
        found: dict[bytes, Message] = {}
        here: Offsets = {name: starts.get(name, 0) for name in ends}
        while here != ends:
            left = sum(ends.values()) - sum(here.values())
            there = dict(ends) if left <= _MESSAGES else dict(between(here, dict(ends), _MESSAGES))
            for messages in self._consumer.read(here, there).values():
                for message in messages:
                    key = message.key()
                    if key is None:
                        place = f"{self._options.owner}: {message.topic()}/{message.partition()}"
                        raise InputError(
                            "a message without a key says nothing about a row: a changelog has a key per row",
                            place,
                            message.offset(),
                        )
                    found.pop(key, None)
                    found[key] = message
            here = there
        return found

    def _table(self, messages: list[Message]) -> pa.Table:
        rows = self._source.decoded({self._options.owner: messages}).table
        if rows.num_rows != len(messages):
            raise InputError(f"{self._options.owner}: a changelog has one row per message, found {rows.num_rows} rows")
        keys = pa.array([message.key() for message in messages], pa.binary())
        columns = arrow_schema(self.stream.schema)
        return rows.select(columns.names).cast(columns).append_column(KEY, keys)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def open_table(asked: SourceRequest) -> ReadTable:
    """Returns what reads the first version of the table, and notes how far it has read."""
    return Changelog(asked.stream, asked.directory).first
