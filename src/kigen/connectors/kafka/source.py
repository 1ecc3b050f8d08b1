"""Reads `FROM kafka (brokers = ..., topic = ...)`: a topic, several, or all that match a pattern.

On the driver, a thread watches the ends of the partitions (`watcher`). Workers read ranges by offset (`range_consumer`)
and decode them. A position holds the offset of every partition and which of them are idle, so a range gives the same
rows and the same watermark always and everywhere. Offsets are also committed to a consumer group, for tools that show
how far a reader is behind, and are never read back. With `--drain` the stream is a log that ends at the offsets found
at the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kigen.connectors.bad_rows import KEPT
from kigen.connectors.kafka.avro import AvroDecoder
from kigen.connectors.kafka.client import ClientOptions
from kigen.connectors.kafka.cluster import Cluster
from kigen.connectors.kafka.decoding import DECODERS, Decoder, Fault
from kigen.connectors.kafka.lag import LagReport
from kigen.connectors.kafka.message_columns import MessageColumns, broker_times_us
from kigen.connectors.kafka.path import between
from kigen.connectors.kafka.range_consumer import Message, RangeConsumer
from kigen.connectors.kafka.watcher import Watcher
from kigen.connectors.options import OptionError
from kigen.connectors.requests import SourceRequest
from kigen.connectors.source_base import BadRow, InputError, LiveSource, Position, Range, Rows, Times
from kigen.lifetimes.partitions import PARTITION, Partitions

_DECODERS = DECODERS | {"avro": AvroDecoder}
_FIRST_ANSWER_S = 30.0
_SILENT_US = 1_000_000  # IDLE of a stream without TIMESTAMP BY, whose time is that of arrival
_TICK_US = 200_000
_LOOK_AHEAD = 8  # messages after the end of a range, of which the first good one gives the time
_PEEK = {"fetch.message.max.bytes": 65_536, "queued.min.messages": 1, "queued.max.messages.kbytes": 1024}


class KafkaSource(LiveSource):
    def __init__(self, asked: SourceRequest) -> None:
        stream, directory = asked.stream, asked.directory
        self.stream, self.live = stream, not asked.draining
        self._owner = f"stream '{stream.name}'"
        self._options = ClientOptions(self._owner, stream.source, directory)
        self._columns = MessageColumns(stream)
        self._idle_us = stream.idle_us or (None if stream.timestamp is not None else _SILENT_US)
        self._first: Position | None = None
        self._marks: dict[int, Position] = {}
        self._watching: Watcher | None = None
        self._last: Position | None = None  # the position that was given last
        self._format = str(stream.source.option("format", "json"))
        if self._format not in _DECODERS:
            raise OptionError(
                f"{self._owner}: format must be one of {', '.join(DECODERS)}, not {self._format!r}", "format"
            )

    # --- on the driver -----------------------------------------------------------------------------------------------

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(self._options)

    @cached_property
    def _lag(self) -> LagReport:
        return LagReport(self._options, str(self.stream.source.option("group", f"kigen-{self.stream.name}")))

    def initial(self) -> Position:
        """Returns the offsets that option `start` names; with `--drain` also those at which the stream ends."""
        if self._first is None:
            partitions = self._cluster.wait_for(_FIRST_ANSWER_S)
            starts = self._cluster.starts(partitions, str(self.stream.source.option("start", "earliest")))
            self._first = {"index": 0, "partitions": starts}
            if not self.live:
                ends = self._cluster.ends(partitions)
                self._first["ends"] = {name: max(end, starts[name]) for name, end in ends.items()}
                self._first["starts"] = starts
        return self._first

    def advance(self, position: Position, max_rows: int) -> Range:
        here: dict[str, int] = position["partitions"]
        ends: dict[str, int] = position["ends"]
        left = sum(ends.values()) - sum(here.values())
        count = min(left, max(1, max_rows))
        # All ranges lie on one way from the first offsets to the last, or partitions would drift apart.
        starts: dict[str, int] = position.get("starts", here)
        gone = sum(here.values()) - sum(starts.values())
        there = ends if count == left else between(starts, ends, gone + count)
        idle = [name for name, end in ends.items() if there[name] == end]
        end = {"index": position["index"] + count, "partitions": dict(there), "ends": ends, "idle": idle}
        end |= {"starts": starts} if "starts" in position else {}
        last = None if count == left else self._reached_us({n: at for n, at in there.items() if at < ends[n]}, ends)
        return Range(self.stream.name, position, end, rows=count, last_ts_us=last, ended=count == left)

    def _reached_us(self, starts: Mapping[str, int], ends: Mapping[str, int]) -> int | None:
        """Returns the time that a drain has reached: the least timestamp that comes next in a partition. Other logs
        wait for it, so that streams which meet in a query advance together. Costs a fetch per partition."""
        peeked = {name: min(start + _LOOK_AHEAD, ends[name]) for name, start in starts.items()}
        reached = []
        for name, messages in self._peeks.read(starts, peeked).items():
            for message in messages:
                with suppress(InputError):  # a bad message: the worker that reads the range says so
                    times = self.decoded({name: [message]}).table["_ts"]
                    if len(times):
                        reached.append(int(times[0].as_py()))
                        break
        return min(reached, default=None)

    @cached_property
    def _peeks(self) -> RangeConsumer:
        """Reads single messages on the driver, and nothing ahead."""
        return RangeConsumer(self._options.config() | _PEEK, self._owner)

    def fraction(self, position: Position) -> float | None:
        if self.live:
            return None
        left = sum(position["ends"].values()) - sum(position["partitions"].values())
        return int(position["index"]) / (int(position["index"]) + left) if left else 1.0

    def resume(self, positions: Mapping[int, Position | None]) -> None:
        self._marks = {index: at for index, at in positions.items() if at is not None}

    @property
    def _watcher(self) -> Watcher:
        if self._watching is None:
            marks = self._marks or {0: self.initial()}
            offsets = {index: position["partitions"] for index, position in marks.items()}
            self._watching = Watcher(self._cluster, self._owner, offsets, self._idle_us)
        return self._watching

    def arrived_by(self, now_us: int) -> int:
        self._lag.report()
        return self._watcher.known()

    def arrivals_us(self, first: int, end: int) -> Times:
        return self._watcher.arrivals_us(first, end)

    def complete_us(self, now_us: int) -> int | None:
        return None  # only the rows say it

    def progress_before(self, number: int, arrival_us: int) -> int | None:
        return None

    def total(self) -> int | None:
        return None

    def position(self, index: int) -> Position:
        self._last = self._watcher.position(index)
        return self._last

    def forget_before(self, index: int) -> None:
        self._watcher.forget_before(index)

    def wants_step(self, at: Position | None) -> bool:
        """Returns whether partitions have become idle since `at`, or all have been for a good while longer."""
        if at is None or self._idle_us is None:
            return False
        now = self._watcher.position(int(at["index"]))
        if now.get("idle", []) != at.get("idle", []):
            return True
        (since_us, lasting_us), before = now.get("silence", (0, 0)), at.get("silence", (0, 0))
        passed_us = lasting_us - (before[1] if before[0] == since_us else 0)
        return bool(passed_us > max(_TICK_US, self._idle_us // 10, lasting_us // 20))

    def piece(self, name: str, first: int, end: int, progress_us: int | None, ended: bool) -> Range:
        start = self._watcher.position(first)
        known = self._last if self._last is not None and self._last["index"] == end else self.position(end)
        self._lag.admitted(start, known)
        begin = {"index": first, "partitions": start["partitions"]}
        return Range(name, begin, known, rows=end - first, progress_us=progress_us, ended=ended)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.close()
        for name in {"_consumer", "_peeks"} & set(self.__dict__):
            self.__dict__.pop(name).close()

    # --- in workers --------------------------------------------------------------------------------------------------

    @cached_property
    def _consumer(self) -> RangeConsumer:
        return RangeConsumer(self._options.config(), self._owner)

    @cached_property
    def _decoder(self) -> Decoder:
        columns = self._columns
        return _DECODERS[self._format](self.stream, columns.value_schema, columns.value_timestamp, self._options)

    def read(self, piece: Range) -> Rows:
        starts, ends = piece.start["partitions"], piece.end["partitions"]
        found = self._consumer.read(starts, ends) if ends != starts else {}
        names = [name for name in ends if found.get(name)]
        rows = self.decoded({name: found[name] for name in names})
        silence = piece.end.get("silence")
        partitions = Partitions(
            tuple(ends), frozenset(piece.end.get("idle", ())), None if silence is None else (silence[0], silence[1])
        )
        return replace(rows, partitions=partitions)

    def decoded(self, found: dict[str, list[Message]]) -> Rows:
        """Decodes the messages of partitions to a table of c0, c1, ..., `_ts` and `_partition`."""
        messages = [message for some in found.values() for message in some]
        decoded = self._decoder.decode([message.value() for message in messages])
        faults, stream = dict(decoded.faults), self.stream
        columns: dict[int, Any] = dict(zip(self._columns.in_value, decoded.columns, strict=True))
        of_row = np.repeat(np.arange(len(messages)), decoded.counts)
        times = broker_times_us(messages)
        for index in self._columns.taken:
            values, wrong = self._columns.values(index, messages)
            columns[index] = values.take(pa.array(of_row))
            for number, fault in wrong.items():
                faults.setdefault(number, fault)
        if stream.timestamp is None:
            for number in np.flatnonzero(times < 0).tolist():
                faults.setdefault(number, (None, "a timestamp required, found a message without one"))
            ts = pa.array(times[of_row])
        else:
            ts = columns[stream.timestamp].cast(pa.int64())
        places = np.repeat(np.arange(len(found), dtype=np.int32), [len(some) for some in found.values()])
        partition = pa.DictionaryArray.from_arrays(pa.array(places[of_row]), pa.array(list(found), pa.string()))
        table = pa.table(
            [*(columns[i] for i in range(len(stream.schema))), ts, partition],
            names=[*(f"c{i}" for i in range(len(stream.schema))), "_ts", PARTITION],
        )
        arrivals = times[of_row]
        errors = self._errors(messages, faults)
        if faults:
            bad = np.zeros(len(messages), np.bool_)
            bad[list(faults)] = True
            keep = ~bad[of_row]
            table, arrivals = table.filter(pa.array(keep)), arrivals[keep]
        listed = self._bad_rows(messages, faults) if self.stream.error_into is not None else ()
        found_at = arrivals if self.live else None
        return Rows(table, len(faults), errors, listed, arrivals_us=found_at, unknown=decoded.unknown)

    def _bad_rows(self, messages: list[Message], faults: dict[int, Fault]) -> tuple[BadRow, ...]:
        """Returns the messages that cannot be read, for ON ERROR INTO."""
        found = []
        for number in sorted(faults):
            message, (column, reason) = messages[number], faults[number]
            text = (message.value() or b"").decode("utf-8", "backslashreplace")
            place = f"{message.topic()}/{message.partition()}:{message.offset()}"
            found.append(BadRow(text, place, reason if column is None else f"field '{column}': {reason}"))
        return tuple(found)

    def _errors(self, messages: list[Message], faults: dict[int, Fault]) -> list[str]:
        """Returns the first bad messages as text; raises InputError unless bad rows are skipped."""
        found = []
        for number in sorted(faults)[:KEPT]:
            message, (column, text) = messages[number], faults[number]
            place = f"{message.topic()}/{message.partition()}"
            error = InputError(text, f"{self._owner}: {place}", message.offset(), column)
            if not self.stream.on_error_skip:
                raise error
            found.append(str(error))
        return found
