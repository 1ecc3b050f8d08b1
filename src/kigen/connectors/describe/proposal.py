"""Proposes a CREATE STREAM statement from the first records of its data: types, the timestamp column, LATENESS.

Invariant: the statement binds, and every record that was looked at fits it. A type is the narrowest that fits all
values: BOOLEAN, BIGINT, DOUBLE, TIMESTAMP (text with a zone), else STRING.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pyarrow as pa

from kigen.connectors.casting import convert_texts, iso_us
from kigen.connectors.describe.samples import Sample, name_of, sample_of
from kigen.connectors.values.arrow_types import type_of_arrow
from kigen.plan.logical import Connector
from kigen.plan.types import Type

_LIKELY = ("ts", "timestamp", "time", "at", "event_time", "created_at", "datetime", "date")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = ("true", "false")


def describe(connector: Connector, directory: str = ".", name: str | None = None) -> str:
    """Returns a CREATE STREAM statement for the data of a connector, with remarks as comments before it."""
    sample = sample_of(connector, directory)
    types: dict[str, Type] = {}
    remarks = [f"-- {sample.records:,} records of {sample.place} looked at"]
    for column in sample.columns:
        found = _type_of(sample, column)
        if found is None:
            remarks.append(f"-- left out: {column} (its values are nested or of several types)")
        else:
            types[column] = found
    stamps = [column for column, kind in types.items() if kind is Type.TIMESTAMP and _is_filled(sample, column)]
    stamps.sort(key=lambda c: _LIKELY.index(c.lower()) if c.lower() in _LIKELY else len(_LIKELY))
    clauses = ""
    if stamps:
        clauses = f" TIMESTAMP BY {_quoted(stamps[0])}{_lateness(sample, stamps[0])}"
    elif connector.name != "kafka":
        remarks.append("-- no column holds a time in every record: files need TIMESTAMP BY")
    columns = ",\n".join(f"  {_quoted(column)} {kind}" for column, kind in types.items())
    options = ", ".join(f"{key} = {_literal(value)}" for key, value in connector.options)
    stream = _quoted(name or name_of(connector))
    return "\n".join(
        [*remarks, f"CREATE STREAM {stream} (\n{columns}\n){clauses}\n  FROM {connector.name} ({options});\n"]
    )


def _type_of(sample: Sample, column: str) -> Type | None:
    if sample.arrow:
        return type_of_arrow(sample.arrow[column])
    values = [value for value in sample.columns[column] if value is not None]
    if not values:
        return Type.STRING
    if sample.texts:
        if all(str(value).lower() in _WORDS for value in values):
            return Type.BOOLEAN
        return next((kind for kind in (Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP) if _fits(values, kind)), Type.STRING)
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return Type.BOOLEAN
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return Type.BIGINT
    if kinds <= {int, float}:
        return Type.DOUBLE
    if kinds != {str}:
        return None
    return Type.TIMESTAMP if _fits(values, Type.TIMESTAMP) else Type.STRING


def _fits(values: list[Any], kind: Type) -> bool:
    return not len(convert_texts(pa.array([str(value) for value in values], pa.string()), kind)[1])


def _is_filled(sample: Sample, column: str) -> bool:
    values = sample.columns[column]
    if isinstance(values, pa.Array):
        return not values.null_count
    return len(values) == sample.records and all(value is not None for value in values)


def _lateness(sample: Sample, column: str) -> str:
    """Returns the LATENESS that every record keeps, in whole seconds."""
    times = _times_us(sample.columns[column])
    newest, behind = None, 0
    for at in times:
        newest = at if newest is None else max(newest, at)
        behind = max(behind, newest - at)
    return f" LATENESS {math.ceil(behind / 1e6)} SECONDS" if behind else ""


def _times_us(values: Any) -> list[int]:
    if isinstance(values, pa.Array):
        return [
            int(at)
            for at in values.cast(pa.timestamp("us", getattr(values.type, "tz", None))).cast(pa.int64()).to_pylist()
        ]
    return [at for at in (iso_us(str(value)) for value in values) if at is not None]


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
