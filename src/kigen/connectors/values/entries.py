"""Converts an entry of a message (what JSON or Avro decodes to) to a value of a column's type, or says that it is none.

In JSON a DECIMAL is a number or text, a BLOB is text in base64, times and UUIDs are text, a LIST is an array, a STRUCT
an object whose missing keys are NULL and whose other keys are ignored. Invariant: no value is changed by it: a DECIMAL
with too many digits is a misfit. Cost: some microseconds per entry.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa

from kigen.lifetimes.expressions.bounded import FIRST_US, LAST_US
from kigen.plan.types import Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WIDE = Context(prec=400)
_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Misfit(ValueError):
    """An entry is no value of the type."""


class Number(float):
    """A number of JSON that remembers its digits: a DECIMAL needs all of them."""

    text: str

    def __new__(cls, text: str) -> Number:
        made = super().__new__(cls, text)
        made.text = text
        return made


def value_of(entry: Any, kind: Type) -> Any:
    """Returns a value for an Arrow array of the type. Raises Misfit."""
    if entry is None:
        return None
    try:
        value = _READERS[kind.kind](entry, kind)
    except (ValueError, OverflowError, InvalidOperation, binascii.Error) as error:
        raise Misfit(str(entry)) from error
    if value is None:
        raise Misfit(str(entry))
    return value


def values_of_texts(texts: pa.Array, kind: Type) -> pa.Array:
    """Returns the lists or structs that texts of JSON describe. Raises ArrowInvalid if one is a misfit."""
    try:
        entries = [None if text is None else json.loads(text, parse_float=Number) for text in texts.to_pylist()]
        return pa.array([value_of(entry, kind) for entry in entries], kind.arrow)
    except (ValueError, RecursionError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _boolean(entry: Any, kind: Type) -> bool | None:
    return entry if isinstance(entry, bool) else None


def _whole(entry: Any, kind: Type) -> int | None:
    fits = isinstance(entry, int) and not isinstance(entry, bool) and -(2**63) <= entry < 2**63
    return entry if fits else None


def _double(entry: Any, kind: Type) -> float | None:
    if isinstance(entry, str):
        return _WORDS.get(entry)
    return float(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else None


def _text(entry: Any, kind: Type) -> str | None:
    return entry if isinstance(entry, str) else None


def _timestamp(entry: Any, kind: Type) -> int | None:
    when = datetime.fromisoformat(entry) if isinstance(entry, str) else entry
    if not isinstance(when, datetime) or (when.tzinfo is None and isinstance(entry, str)):
        return None
    at = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
    return at if FIRST_US <= at <= LAST_US else None


def _date(entry: Any, kind: Type) -> date | None:
    if isinstance(entry, str):
        return date.fromisoformat(entry) if _DAY.fullmatch(entry) else None
    return entry if isinstance(entry, date) and not isinstance(entry, datetime) else None


def _time(entry: Any, kind: Type) -> time | None:
    if isinstance(entry, str):
        return time.fromisoformat(entry) if _TIME.fullmatch(entry) else None
    return entry if isinstance(entry, time) else None


def _uuid(entry: Any, kind: Type) -> str | None:
    if isinstance(entry, UUID):
        return str(entry)
    return entry.lower() if isinstance(entry, str) and _UUID.fullmatch(entry) else None


def _blob(entry: Any, kind: Type) -> bytes | None:
    if isinstance(entry, str):
        return base64.b64decode(entry, validate=True)
    return entry if isinstance(entry, bytes) else None


def _decimal(entry: Any, kind: Type) -> Decimal | None:
    if isinstance(entry, bool) or not isinstance(entry, int | float | str | Decimal):
        return None
    exact = Decimal(entry.text if isinstance(entry, Number) else str(entry).strip(" \t"))
    if not exact.is_finite():
        return None
    whole = exact.scaleb(kind.scale, _WIDE)
    return exact if whole == whole.to_integral_value() and abs(whole) < 10**kind.precision else None


def _list(entry: Any, kind: Type) -> list[Any] | None:
    assert kind.element is not None
    return [value_of(item, kind.element) for item in entry] if isinstance(entry, list) else None


def _struct(entry: Any, kind: Type) -> dict[str, Any] | None:
    if not isinstance(entry, dict):
        return None
    return {name: value_of(entry.get(name), field) for name, field in kind.fields}


_READERS: dict[str, Callable[[Any, Type], Any]] = {
    "BOOLEAN": _boolean,
    "BIGINT": _whole,
    "DOUBLE": _double,
    "STRING": _text,
    "TIMESTAMP": _timestamp,
    "DATE": _date,
    "TIME": _time,
    "UUID": _uuid,
    "BLOB": _blob,
    "DECIMAL": _decimal,
    "LIST": _list,
    "STRUCT": _struct,
}
