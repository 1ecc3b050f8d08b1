"""Finds what a checkpoint keeps of a query's results, and how far it is committed. Needs no Spark.

A run that keeps results has parquet parts below `results` (lines with lifetimes); a run that keeps changes has a log
below `changes`. An offset is a sink position: a number of parts, or of bytes. Invariant: what lies before a committed
position never changes, so the rows between two offsets are the same each time they are read. Committed positions are
those that a restart of the run opens its outputs at: of the last record in the sink log, and of the rounds after it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors import InputError
from kigen.connectors.changes_log import Relation
from kigen.connectors.parquet.sink import ParquetEncoder
from kigen.connectors.values.entries import Number, value_of
from kigen.language.errors import suggest
from kigen.plan.changes import stored_plans
from kigen.plan.logical import Query
from kigen.plan.types import Column, Type
from kigen.spark.sink.round_records import RoundRecords
from kigen.spark.sink.sink_log import SinkLog

Offset = dict[str, int]
MODES = ("append", "changes")
_TRIES = 20  # the run replaces files while they are read
_PIECE_BYTES = 4 << 20


class KeptResults(ABC):
    """Results of one query in a checkpoint. Small and picklable: nothing is kept open."""

    unit: str  # of offsets

    def __init__(self, checkpoint: Path, query: Query) -> None:
        self._checkpoint, self._query = checkpoint, query

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The query's columns, then the times; all timestamps in UTC."""

    @property
    @abstractmethod
    def output(self) -> str:
        """The name of the output in the sink log."""

    @abstractmethod
    def first(self) -> Offset:
        """Returns the offset of the oldest row that is kept."""

    @abstractmethod
    def partitions(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        """Returns the ranges that may be read in parallel."""

    @abstractmethod
    def read(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        """Reads a range."""

    def committed(self) -> int:
        """Returns how far the results are committed."""
        for attempt in range(_TRIES):
            try:
                record = SinkLog(str(self._checkpoint)).last()
                break
            except FileNotFoundError:  # replaced by a newer record just now
                if attempt == _TRIES - 1:
                    raise
        positions = [] if record is None else [record.sink_positions.get(self.output)]
        rounds = RoundRecords(str(self._checkpoint), 0 if record is None else record.batch + 1)
        positions += [found.positions.get(self.output) for found in rounds.read(None)]
        return max((int(at[self.unit]) for at in positions if at is not None), default=0)

    def latest(self, start: Offset) -> Offset:
        """Returns the offset to read to, from a start. Raises InputError if the run was begun anew since."""
        end = self.committed()
        if end < start[self.unit]:
            raise InputError(
                f"results of query '{self._query.name}' were read up to {start[self.unit]} {self.unit}, and the run "
                f"has committed {end}: it was started from the beginning since. Read them with a new "
                "checkpointLocation",
                str(self._checkpoint),
            )
        return {self.unit: end}


class KeptLines(KeptResults):
    """Lines with lifetimes: parquet parts. Each is one range."""

    unit = "parts"

    @property
    def _folder(self) -> Path:
        return self._checkpoint / "results" / self._query.name

    @property
    def arrow_schema(self) -> pa.Schema:
        return _zoned(ParquetEncoder(self._query.schema, self._query.root.is_stream).arrow_schema)

    @property
    def output(self) -> str:
        return f"{self._query.name} results{_of_change(self._query)}"

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def first(self) -> Offset:
        return {self.unit: 0}

    def partitions(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        return [(part, part + 1) for part in range(start[self.unit], end[self.unit])]

    def read(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        for part in range(begin, end):
            table = pq.read_table(self._folder / f"part-{part:05d}.parquet")
            yield from table.cast(self.arrow_schema).to_batches()


class KeptChanges(KeptResults):
    """Births and deaths: JSON lines in segments, of which old ones are removed. One range, since order matters."""

    unit = "bytes"

    @property
    def _folder(self) -> Path:
        return self._checkpoint / "changes" / quote(self._query.name, safe="")

    @property
    def arrow_schema(self) -> pa.Schema:
        return _zoned(ParquetEncoder(self._query.schema, self._query.root.is_stream, changes=True).arrow_schema)

    @property
    def output(self) -> str:
        return f"{self._query.name} changes{_of_change(self._query)}"

    @property
    def exists(self) -> bool:
        return self._folder.is_dir()

    def first(self) -> Offset:
        """Returns the start of the oldest segment. What was true then comes first, as inserts (`begins`)."""
        start = min(self._starts(), default=0)
        return {self.unit: start, "begins": 1}

    def partitions(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        # A range that begins with what was true is marked by a begin below zero.
        begin = start[self.unit]
        return [(-1 - begin if start.get("begins") else begin, end[self.unit])]

    def read(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        at = begin
        if begin < 0:
            at = -1 - begin
            yield from self._true_at(at)
        while at < end:
            starts = self._starts()
            start = max((one for one in starts if one <= at), default=None)
            if start is None:
                raise InputError(
                    f"changes of query '{self._query.name}' from byte {at} on are not kept any more, they begin at "
                    f"{min(starts, default=end)}: read them sooner, or keep them for longer (--keep-results)",
                    str(self._folder),
                )
            stop = min(end, min((one for one in starts if one > at), default=end))
            with (self._folder / f"{start:020d}.jsonl").open("rb") as file:
                file.seek(at - start)
                while at < stop:
                    data = file.read(min(_PIECE_BYTES, stop - at))
                    data += file.readline() if not data.endswith(b"\n") else b""
                    at += len(data)
                    yield from self._parsed(data)

    def _true_at(self, start: int) -> Iterator[pa.RecordBatch]:
        """Returns what was true at the start of a segment, as inserts at the time of the last change before it."""
        try:
            relation = Relation.from_bytes((self._folder / f"{start:020d}.relation").read_bytes())
        except FileNotFoundError:
            raise InputError(
                f"the oldest changes of query '{self._query.name}' were removed while they were read: start again",
                str(self._folder),
            ) from None
        head = f'{{"_op":"insert","_at":{json.dumps(relation.changed_at)},'.encode()
        lines = b"".join(head + row[1:] + b"\n" for row in relation.objects())
        yield from self._parsed(lines)

    def _parsed(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        if not lines:
            return
        rows = [json.loads(line, parse_float=Number) for line in lines.splitlines()]
        columns = [
            pa.array([value_of(row[column.name], column.type) for row in rows], column.type.arrow)
            for column in (*self._query.schema, Column("_op", Type.STRING), Column("_at", Type.TIMESTAMP))
        ]
        yield from pa.table(columns, names=self.arrow_schema.names).cast(self.arrow_schema).to_batches()

    def _starts(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.jsonl")]


def kept_results(path: str | None, query: str | None, mode: str | None = None) -> KeptResults:
    """Returns the results of a query that a checkpoint keeps: lines if they are kept, else changes; `mode` chooses.

    Raises InputError, which says what is missing and what to do.
    """
    if not path or not query:
        raise InputError("format kigen needs the options path, a checkpoint of Kigen, and query, the name of a query")
    if mode is not None and mode not in MODES:
        raise InputError(f"option mode must be one of {', '.join(MODES)}, not '{mode}'")
    checkpoint = Path(path)
    found = _query(checkpoint, query)
    lines, changes = KeptLines(checkpoint, found), KeptChanges(checkpoint, found)
    if lines.exists and mode != "changes":
        return lines
    if changes.exists and mode != "append":
        return changes
    there = "changes" if changes.exists else "lines" if lines.exists else "nothing"
    raise InputError(
        f"the run of query '{found.name}' keeps {there}{'' if mode is None else f', and mode {mode} was asked for'}: "
        "start it with keep_results=True (kigen.Engine) to keep lines, or with keep_changes_s (--keep-results T) to "
        "keep changes",
        str(checkpoint),
    )


def _query(checkpoint: Path, name: str) -> Query:
    try:
        body = json.loads((checkpoint / "app.json").read_bytes())
    except (OSError, ValueError) as error:
        raise InputError("no checkpoint of a run is here: give --checkpoint DIR as path", str(checkpoint)) from error
    try:
        queries: tuple[Query, ...] = stored_plans.from_json(body["plans"])["queries"]
    except (KeyError, stored_plans.StoredPlanError) as error:
        message = f"the checkpoint is of Kigen {body.get('kigen', '?')}, whose results this Kigen cannot read: {error}"
        raise InputError(message, str(checkpoint)) from error
    found = next((query for query in queries if query.name.lower() == name.lower()), None)
    if found is None:
        hint = suggest(name, [query.name for query in queries], "queries here")
        raise InputError(f"the run has no query '{name}'; {hint}", str(checkpoint))
    return found


def _of_change(query: Query) -> str:
    return f" #{query.added_by}" if query.added_by else ""


def _zoned(schema: pa.Schema) -> pa.Schema:
    utc = pa.timestamp("us", "UTC")
    return pa.schema([pa.field(f.name, utc if pa.types.is_timestamp(f.type) else f.type) for f in schema])
