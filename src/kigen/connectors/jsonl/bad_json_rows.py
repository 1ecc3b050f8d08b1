"""Parses JSON lines slowly, line by line, to find each bad row with its line, field and text.

Invariant: a line that pyarrow.json would accept gives the same row here; a line that it would refuse is a bad row.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from kigen.connectors.ahead import NO_LIMIT, Ahead
from kigen.connectors.bad_rows import BadRows, null_timestamp, shown, wrong_type
from kigen.connectors.casting import convert_texts, with_ts
from kigen.connectors.source_base import Rows
from kigen.connectors.text_files import Span
from kigen.connectors.values.entries import Misfit, Number, value_of
from kigen.connectors.values.unknown_fields import unknown_keys
from kigen.plan.logical import SourceStream
from kigen.plan.types import Column, Type

# Besides bool and int, which `_fits` tells apart.
_PYTHON: dict[Type, tuple[type, ...]] = {
    Type.BOOLEAN: (),
    Type.BIGINT: (),
    Type.DOUBLE: (float,),
    Type.STRING: (str,),
    Type.TIMESTAMP: (str,),
}


class _Twice(ValueError):
    """A key appears twice in an object."""


def parse_by_line(span: Span, stream: SourceStream, timestamp: int | None, file: str, ahead: Ahead = NO_LIMIT) -> Rows:
    bad = BadRows(file, stream.on_error_skip)
    found: list[list[Any]] = [[] for _ in stream.schema]
    numbers: list[int] = []
    objects: list[dict[str, Any]] = []
    declared = {column.name for column in stream.schema}
    for number, line in enumerate(span.data.split(b"\n"), span.line):
        if not line.strip(b" \t\r"):
            continue
        value, fault = _object(line, declared)
        if fault is not None:
            bad.add(number, number, -1, None, fault)
            continue
        numbers.append(number)
        objects.append(value)
        for index, column in enumerate(stream.schema):
            entry = value.get(column.name)
            if entry is not None and not _fits(entry, column.type):
                bad.add(
                    number, number, index, column.name, wrong_type(json.dumps(entry, ensure_ascii=False), column.type)
                )
                entry = None
            elif entry is None and index == timestamp:
                bad.add(
                    number,
                    number,
                    index,
                    column.name,
                    null_timestamp("null" if column.name in value else "no such key"),
                )
            found[index].append(entry)
    columns = [_column(found[i], i, stream, numbers, bad) for i in range(len(stream.schema))]
    if timestamp is not None:
        for at in ahead.beyond(columns[timestamp]).tolist():
            number = numbers[at]
            bad.add(number, number, timestamp, stream.schema[timestamp].name, ahead.message(str(found[timestamp][at])))
    skipped, errors = bad.settle()
    keep = pa.array([number not in bad for number in numbers], pa.bool_())
    lines = span.data.split(b"\n") if stream.error_into is not None else []
    listed = bad.listed(lambda number: lines[number - span.line].decode("utf-8", "backslashreplace")) if lines else ()
    kept = [pa.chunked_array([c.filter(keep)]) for c in columns]
    unknown = unknown_keys(objects, declared)
    return Rows(with_ts(kept, stream.schema, timestamp), skipped, errors, listed, unknown=unknown)


def _column(entries: list[Any], index: int, stream: SourceStream, numbers: list[int], bad: BadRows) -> pa.Array:
    column = stream.schema[index]
    if column.type is Type.DOUBLE:
        entries = [None if e is None else float(e) for e in entries]
    if column.type not in _PYTHON:
        return pa.array([_value(e, i, index, column, numbers, bad) for i, e in enumerate(entries)], column.type.arrow)
    if column.type is not Type.TIMESTAMP:
        return pa.array(entries, column.type.arrow)
    values, misfits = convert_texts(pa.array(entries, pa.string()), column.type)
    for at in misfits.tolist():
        bad.add(numbers[at], numbers[at], index, column.name, wrong_type(entries[at], column.type))
    return values


def _value(entry: Any, at: int, index: int, column: Column, numbers: list[int], bad: BadRows) -> Any:
    """Returns a value of one of the richer types; a misfit is a bad row."""
    try:
        return value_of(entry, column.type)
    except Misfit:
        text = entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False)
        bad.add(numbers[at], numbers[at], index, column.name, wrong_type(text, column.type))
        return None


def _object(line: bytes, declared: set[str]) -> tuple[dict[str, Any], str | None]:
    """Returns the object on a line, or what is wrong with it."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)
        if len(value) < len(items):
            keys = [key for key, _ in items]
            twice = next((key for key in keys if key in declared and keys.count(key) > 1), None)
            if twice is not None:
                raise _Twice(f"key '{twice}' appears twice")
        return value

    try:
        value = json.loads(line.decode(), object_pairs_hook=pairs, parse_float=_finite)
        if not isinstance(value, dict):
            return {}, f"a JSON object required, found {shown(line.decode())}"
        json.dumps(value, ensure_ascii=False).encode()  # raises for half a surrogate pair
        return value, None
    except (ValueError, RecursionError) as error:
        return {}, f"a JSON object required, found {shown(line.decode(errors='backslashreplace'))}: {error}"


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError(f"{text} is too large for a DOUBLE")
    return Number(text)


def _fits(entry: Any, type_: Type) -> bool:
    if type_ not in _PYTHON:
        return True  # `_value` decides
    if isinstance(entry, bool):
        return type_ is Type.BOOLEAN
    if isinstance(entry, int):
        return abs(entry) < 2**1023 if type_ is Type.DOUBLE else type_ is Type.BIGINT and -(2**63) <= entry < 2**63
    return isinstance(entry, _PYTHON[type_])
