"""Decodes Avro values: with a schema registry (a zero byte, four bytes of schema id, the record), or by one schema.

Each message is read with the schema that it was written with, and columns are found by name, so a topic whose schema
changes can be read on. Times are logical types (timestamp-millis, timestamp-micros) or text in ISO-8601. Cost: some
microseconds per message, in fastavro; each schema is fetched once per worker.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from kigen.connectors.bad_rows import null_timestamp, wrong_type
from kigen.connectors.casting import iso_us
from kigen.connectors.kafka.client import ClientOptions
from kigen.connectors.kafka.decoding import Decoder, Unavailable, Values
from kigen.connectors.options import OptionError
from kigen.connectors.source_base import InputError
from kigen.connectors.values.unknown_fields import unknown_keys
from kigen.lifetimes.expressions.bounded import FIRST_US, LAST_US
from kigen.plan.logical import SourceStream
from kigen.plan.types import Schema, Type

_ATTEMPTS, _PAUSE_S, _ANSWER_S = 5, 1.0, 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PYTHON: dict[Type, tuple[type, ...]] = {
    Type.BOOLEAN: (bool,),
    Type.BIGINT: (int,),
    Type.DOUBLE: (float, int),
    Type.STRING: (str,),
    Type.TIMESTAMP: (datetime, str),
}


def _library() -> ModuleType:
    try:
        return importlib.import_module("fastavro")
    except ImportError as error:
        raise Unavailable(
            "format 'avro' needs the package fastavro, which is not installed: pip install 'kigen[kafka]'"
        ) from error


class Registry:
    """Schemas by id, from a schema registry."""

    def __init__(self, options: ClientOptions, url: str) -> None:
        self._options, self._url = options, url.rstrip("/")
        self._schemas: dict[int, Any] = {}

    def schema(self, number: int) -> Any:
        """Returns a parsed schema. Raises InputError if there is none of this id, Unavailable if nobody answers."""
        if number not in self._schemas:
            self._schemas[number] = _library().parse_schema(json.loads(self._fetch(number)["schema"]))
        return self._schemas[number]

    def _fetch(self, number: int) -> Any:
        request = urllib.request.Request(f"{self._url}/schemas/ids/{number}")
        user = self._options.connector.option("registry_username")
        if user is not None:
            secret = self._options.secret("registry_password") or ""
            token = base64.b64encode(f"{user}:{secret}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        found: Exception | None = None
        for attempt in range(_ATTEMPTS):
            time.sleep(_PAUSE_S if attempt else 0.0)
            try:
                with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    found = error
                    if error.code == 404:
                        raise InputError(f"the schema registry has no schema {number}") from error
                    if error.code in (401, 403):
                        break
            except (OSError, ValueError) as error:
                found = error
        raise Unavailable(
            f"{self._options.owner}: the schema registry {self._url} does not give schema {number}: {found}"
        )


class AvroDecoder(Decoder):
    """An Avro record per message; a missing field is NULL, other fields are ignored."""

    def __init__(self, stream: SourceStream, schema: Schema, timestamp: int | None, options: ClientOptions) -> None:
        super().__init__(stream, schema, timestamp, options)
        url, file = stream.source.option("registry"), stream.source.option("schema")
        if (url is None) == (file is None):
            raise OptionError(
                f"{options.owner}: format 'avro' needs option registry, the address of a schema registry, or schema, "
                "a file with the one schema of all messages",
                "format",
            )
        self._registry = None if url is None else Registry(options, str(url))
        self._one: Any = None
        self._file = None if file is None else Path(options.directory) / str(file)

    def parse(self, values: Values) -> tuple[pa.Table, int | list[int]]:
        records = [self._record(value) for value in values]
        columns = [self._column(records, i) for i in range(len(self.schema))]
        self.note_unknown(unknown_keys(records, [column.name for column in self.schema]))
        return pa.table(columns, names=[f"c{i}" for i in range(len(self.schema))]), 1

    def _record(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {}
        avro = _library()
        body = io.BytesIO(value)
        if self._registry is None:
            schema = self._one = self._one or self._read_schema()
        else:
            head = body.read(5)
            if len(head) < 5 or head[0] != 0:
                raise InputError(
                    f"a zero byte and a schema's id required, found {head!r}: was it written without a registry?"
                )
            schema = self._registry.schema(int.from_bytes(head[1:], "big"))
        try:
            record = avro.schemaless_reader(body, schema)
        except Exception as error:  # fastavro raises many kinds for bytes that do not fit
            raise InputError(f"an Avro record required: {type(error).__name__}: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"an Avro record required, found {type(record).__name__}")
        return record

    def _read_schema(self) -> Any:
        assert self._file is not None
        try:
            return _library().parse_schema(json.loads(self._file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise Unavailable(f"option schema: {self._file} cannot be read: {error}") from error

    def _column(self, records: list[dict[str, Any]], index: int) -> pa.Array:
        column, entries = self.schema[index], list[Any]()
        for record in records:
            entry: Any = record.get(column.name)
            if entry is None and index == self.timestamp:
                raise InputError(null_timestamp("no value"), field=column.name)
            if entry is not None:
                is_bool = isinstance(entry, bool) and column.type is not Type.BOOLEAN
                if is_bool or not isinstance(entry, _PYTHON[column.type]):
                    raise InputError(wrong_type(str(entry), column.type), field=column.name)
                if column.type is Type.TIMESTAMP:
                    entry = self._time_us(record[column.name], column.name)
            entries.append(entry)
        if column.type is Type.TIMESTAMP:
            return pa.array(entries, pa.int64()).view(pa.timestamp("us"))
        return pa.array(entries, column.type.arrow)

    def _time_us(self, entry: datetime | str, name: str) -> int:
        if isinstance(entry, str):
            at = iso_us(entry)
        else:
            aware = entry if entry.tzinfo is not None else entry.replace(tzinfo=UTC)
            at = (aware - _EPOCH) // timedelta(microseconds=1)
        if at is None or not FIRST_US <= at <= LAST_US:
            raise InputError(wrong_type(str(entry), Type.TIMESTAMP), field=name)
        return at
