"""Converts text to values of a type: the five first types exactly as the fast csv path does,
and finds each value that does not fit.

Invariant: `convert` accepts and returns what pyarrow.csv would with `csv_type`; NULL stays NULL. Cost: one cast if
every value fits, else about 2 log n casts per misfit.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kigen.connectors.values.entries import values_of_texts
from kigen.lifetimes.expressions.bounded import TooLarge, check_times
from kigen.plan.types import Schema, Type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UTC = pa.timestamp("us", "UTC")
_MICROSECOND = timedelta(microseconds=1)


def _cases(word: str) -> list[str]:
    return ["".join(letters) for letters in product(*((c.lower(), c.upper()) for c in word))]


TRUE_TEXTS = [*_cases("true"), "1"]
FALSE_TEXTS = [*_cases("false"), "0"]


def csv_type(type_: Type) -> pa.DataType:
    """Returns the type that the csv parser uses: a TIMESTAMP with a zone, so that text without a zone is refused."""
    return _UTC if type_ is Type.TIMESTAMP else type_.arrow if type_ in PARSED else pa.string()


def without_zone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns UTC microseconds without a zone, as blocks carry them; does not copy."""
    return pa.chunked_array([chunk.view(pa.timestamp("us")) for chunk in column.chunks], pa.timestamp("us"))


def with_ts(columns: list[pa.ChunkedArray], schema: Schema, timestamp: int | None) -> pa.Table:
    """Builds the table of `Rows`: c0, c1, ... and `_ts`. Without a timestamp column there is no `_ts` yet: the tuple's
    arrival will be its timestamp."""
    names = [f"c{i}" for i in range(len(schema))]
    if timestamp is None:
        return pa.table(columns, names=names)
    chunks = [chunk.view(pa.int64()) for chunk in columns[timestamp].chunks]
    return pa.table([*columns, pa.chunked_array(chunks, pa.int64())], names=[*names, "_ts"])


def in_range(times: pa.Array) -> pa.Array:
    """Returns times and dates unchanged; raises ArrowInvalid if one lies before the year 1 or after 9999. Such a time
    cannot be written, and its death might overflow."""
    try:
        check_times(times)
    except TooLarge as error:
        raise pa.ArrowInvalid(str(error)) from error
    return times


def are_in_range(columns: Iterable[pa.ChunkedArray]) -> bool:
    """Returns whether all timestamps among these columns are in range."""
    try:
        for column in columns:
            if pa.types.is_timestamp(column.type):
                for chunk in column.chunks:
                    in_range(chunk)
    except pa.ArrowInvalid:
        return False
    return True


def convert(texts: pa.Array, type_: Type) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Returns values of the type in the order of `texts` (binary), and the indices of those that do not fit, which are
    NULL among the values."""
    if not len(texts):
        return pa.array([], type_.arrow), np.empty(0, np.int64)
    try:
        return _cast_texts(texts, type_), np.empty(0, np.int64)
    except pa.ArrowInvalid:
        hopeless = pc.fill_null(pc.invert(pc.match_substring_regex(texts, _PLAUSIBLE.get(type_.kind, ""))), False)
    kept = pc.if_else(hopeless, pa.scalar(None, pa.binary()), texts)
    values, misfits = bisect_cast(kept, partial(_cast_texts, type_=type_))
    return values, np.union1d(misfits, np.flatnonzero(hopeless.to_numpy(zero_copy_only=False)))


def convert_texts(texts: pa.Array, type_: Type) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Converts strings as `convert` converts bytes."""
    return convert(texts.cast(pa.binary()), type_)


def bisect_cast(values: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Returns the cast values, with NULL where the cast raises ArrowInvalid, and the indices of those."""
    bad: list[int] = []
    parts = _cast(values, cast, 0, bad)
    return pa.concat_arrays(parts) if parts else cast(values), np.array(bad, np.int64)


def _cast(texts: pa.Array, cast: Callable[[pa.Array], pa.Array], offset: int, bad: list[int]) -> list[pa.Array]:
    if not len(texts):
        return []
    try:
        return [cast(texts)]
    except pa.ArrowInvalid:
        if len(texts) == 1:
            bad.append(offset)
            return [cast(pa.nulls(1, texts.type))]
    half = len(texts) // 2
    return _cast(texts.slice(0, half), cast, offset, bad) + _cast(texts.slice(half), cast, offset + half, bad)


def _text(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.string())


def _trimmed(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim(_text(texts), " \t")


def _cast_texts(texts: pa.Array, type_: Type) -> pa.Array:
    """Raises ArrowInvalid if a text does not fit."""
    if type_.is_nested:
        return values_of_texts(_text(texts), type_)
    if type_.is_decimal:
        return _decimals(_trimmed(texts), type_)
    return _CASTS[type_.kind](texts)


def _decimals(texts: pa.Array, type_: Type) -> pa.Array:
    """Arrow reads the texts; it neither rounds nor cuts."""
    if pc.any(pc.match_substring_regex(texts, r"[^-+.\deE]")).as_py():
        raise pa.ArrowInvalid("not a number")
    return texts.cast(type_.arrow)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    """Returns texts that all match; raises ArrowInvalid if one does not."""
    text = _text(texts)
    if pc.all(pc.match_substring_regex(text, pattern)).as_py() is False:
        raise pa.ArrowInvalid("another form is required")
    return text


def _times_of_day(texts: pa.Array) -> pa.Array:
    """Arrow reads no times of day, but times of the first day."""
    return pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us")).cast(pa.time64("us"))


def _blobs(texts: pa.Array) -> pa.Array:
    try:
        found = [None if t is None else base64.b64decode(t, validate=True) for t in texts.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from error
    return pa.array(found, pa.binary())


_CASTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "BOOLEAN": lambda texts: _text(texts).cast(pa.bool_()),
    "BIGINT": lambda texts: _trimmed(texts).cast(pa.int64()),
    "DOUBLE": lambda texts: _trimmed(texts).cast(pa.float64()),
    "STRING": _text,
    "TIMESTAMP": lambda texts: in_range(_text(texts).cast(_UTC).view(pa.timestamp("us"))),
    "DATE": lambda texts: in_range(_matching(texts, _PLAUSIBLE["DATE"]).cast(pa.date32())),
    "TIME": lambda texts: _times_of_day(_matching(texts, _PLAUSIBLE["TIME"])),
    "UUID": lambda texts: pc.utf8_lower(_matching(texts, _PLAUSIBLE["UUID"])),
    "BLOB": _blobs,
}
PARSED = (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP)  # types that Arrow's csv parser reads

# Every text that the cast accepts matches, and few others do: this saves the search most of the misfits.
_PLAUSIBLE: dict[str, str] = {
    "BOOLEAN": r"^([01]|[tTfF][a-zA-Z]+)$",
    "BIGINT": r"^[ \t]*-?\d[\da-fA-FxX]*[ \t]*$",
    "DOUBLE": r"^[ \t]*[-+]?[.\diInN][-+.\w]*[ \t]*$",
    "TIMESTAMP": r"^\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[-+][\d:]+)$",
    "DATE": r"^\d{4}-\d\d-\d\d$",
    "TIME": r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?$",
    "UUID": r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "BLOB": r"^[A-Za-z0-9+/]*={0,2}$",
    "DECIMAL": r"^[ \t]*[-+]?[.\d][-+.\deE]*[ \t]*$",
    "LIST": r"^\s*\[",
    "STRUCT": r"^\s*\{",
}


def iso_us(text: str) -> int | None:
    """Returns a timestamp as microseconds since the Unix epoch; None if the text is not a time with a zone."""
    try:
        when = datetime.fromisoformat(text)
        return None if when.tzinfo is None else (when - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None
