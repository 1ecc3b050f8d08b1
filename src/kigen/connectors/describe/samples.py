"""Reads the first records of files or of a topic, as columns of values by name.

Invariant: reads at most `RECORDS` records. Nested JSON values have no type of ours; their columns are named and left
out.
"""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kigen.connectors.csv.records import record_ends
from kigen.connectors.input_files import Files
from kigen.connectors.kafka.source import KafkaSource
from kigen.connectors.options import OptionError, path_of, suffixes_of
from kigen.connectors.requests import SourceRequest
from kigen.connectors.source_base import InputError
from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Column, Type

RECORDS = 1000
FILES = ("csv", "jsonl", "parquet")
_BYTES = 1 << 20


@dataclass
class Sample:
    """Columns by name, in their order. Values of csv are texts (`texts`), an empty field is None."""

    place: str
    records: int = 0
    columns: dict[str, list[Any]] = field(default_factory=dict)
    texts: bool = False
    arrow: dict[str, pa.DataType] = field(default_factory=dict)  # of parquet, whose files say their types


def sample_of(connector: Connector, directory: str, which: int = 0) -> Sample:
    """Returns the first records; raises InputError if there are none to look at. Of several files, `which` is the
    place of the one to look at."""
    if connector.name == "kafka":
        return _topic(connector, directory)
    if connector.name not in FILES:
        raise OptionError(f"connector '{connector.name}' cannot be described; there are: csv, jsonl, parquet, kafka")
    files = Files(path_of("DESCRIBE", connector), directory, suffixes_of(connector))
    name = files.names[which]
    if connector.name == "parquet":
        return _parquet(files.full(name))
    data = files.read(name, 0, _BYTES)
    whole = data if len(data) < _BYTES else data[: data.rfind(b"\n") + 1]
    read = _csv if connector.name == "csv" else _json
    return read(whole, files.full(name))


def _csv(data: bytes, file: str) -> Sample:
    text = data.removeprefix(b"\xef\xbb\xbf")
    ends = record_ends(text)
    rows = (
        list(csv.reader(io.StringIO(text[: ends[min(RECORDS, len(ends) - 1)]].decode("utf-8", "replace"))))
        if len(ends)
        else []
    )
    if not rows:
        raise InputError("a header is required, found nothing", file, 1)
    sample = Sample(file, columns={name: [] for name in rows[0]}, texts=True)
    for row in rows[1:]:
        if len(row) == len(rows[0]):
            sample.records += 1
            for name, value in zip(rows[0], row, strict=True):
                sample.columns[name].append(value or None)
    return sample


def _json(data: bytes, file: str) -> Sample:
    return _objects([line for line in data.split(b"\n") if line.strip()][:RECORDS], file)


def _objects(lines: list[bytes], place: str) -> Sample:
    sample = Sample(place)
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"a JSON object required: {error}", place, number) from error
        if not isinstance(value, dict):
            raise InputError("a JSON object required", place, number)
        for name, entry in value.items():
            sample.columns.setdefault(name, []).append(entry)
        sample.records += 1
    return sample


def _parquet(path: str) -> Sample:
    try:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(batch_size=RECORDS), None)
            schema = file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read as a parquet file: {error}", path) from error
    sample = Sample(path, 0 if batch is None else batch.num_rows, arrow={f.name: f.type for f in schema})
    for column in schema.names:
        sample.columns[column] = [] if batch is None else batch.column(column)
    return sample


def _topic(connector: Connector, directory: str) -> Sample:
    options = tuple((key, value) for key, value in connector.options if key not in ("format", "columns"))
    raw = Connector("kafka", (*options, ("format", "raw")))
    source = KafkaSource(
        SourceRequest(SourceStream("describe", (Column("value", Type.STRING),), raw), directory, True, None, None)
    )
    rows = source.read(source.advance(source.initial(), RECORDS))
    values = [value.encode() for value in rows.table.column("c0").to_pylist() if value]
    return _objects(values, f"topic {connector.option('topic')}")


def name_of(connector: Connector) -> str:
    """Returns a name for the stream, after its file or topic."""
    path = str(connector.option("path") or connector.option("topic") or "s")
    base = os.path.basename(path.rstrip("/*")) or os.path.basename(os.path.dirname(path)) or "s"
    letters = [c if c.isalnum() else "_" for c in base.split(".")[0].strip("*")]
    name = "".join(letters).strip("_") or "s"
    return name if name[0].isalpha() else f"s_{name}"
