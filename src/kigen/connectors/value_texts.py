"""Writes numbers and times of a column as text, without a Python loop over rows. CSV and JSON share these texts.

Invariant: a double is the shortest text that reads back to the same bits; it always has a point, an exponent, or is
`NaN`, `inf` or `-inf`. A timestamp is ISO-8601 in UTC with six decimals. NULL stays NULL.
"""

from __future__ import annotations

import base64
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_SECONDS_PER_DAY, _US_PER_DAY = 86_400, 86_400_000_000
_YEAR_0_US, _YEAR_10000_US = -62_167_219_200_000_000, 253_402_300_800_000_000
_THREE_DIGITS = np.array([f"{i:03d}" for i in range(1000)], "S3")
_MOST_DAYS = 100_000  # between the first and the last day of a batch: then days are looked up in a table


def double_texts(column: pa.DoubleArray) -> pa.Array:
    """Arrow's own text, except for doubles that it writes in another way: whole numbers and those below."""
    text = column.cast(pa.string())
    values = column.fill_null(0.5).to_numpy()
    size = np.abs(values)
    whole = (size < 1e16) & (values == np.trunc(values))
    if whole.any():
        digits = pa.array(values[whole].astype(np.int64)).cast(pa.string())
        minus = (values[whole] == 0) & np.signbit(values[whole])
        text = pc.replace_with_mask(
            text, pa.array(whole), pc.binary_join_element_wise(pc.if_else(pa.array(minus), "-0", digits), ".0", "")
        )
    other = ~whole & (np.isnan(values) | ((size >= 1e10) & (size < 1e16)) | ((size >= 1e-6) & (size < 1e-5)))
    if other.any():
        replaced = pa.array([_double(value) for value in values[other].tolist()], pa.string())
        text = pc.replace_with_mask(text, pa.array(other), replaced)
    return text


def _double(value: float) -> str:
    return "NaN" if value != value else repr(value).replace("e-0", "e-")


def plain_texts(column: pa.Array) -> pa.Array:
    """Writes the other types without lists and structs: decimals with all their digits, bytes in base64."""
    if pa.types.is_binary(column.type):
        return pa.array([None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()], pa.string())
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        short = pc.fill_null(pc.match_substring(text, "E"), False)
        if pc.any(short).as_py():
            digits = [format(value, "f") for value in column.filter(short).to_pylist()]
            text = pc.replace_with_mask(text, short, pa.array(digits, pa.string()))
    return text


def time_texts(column: pa.TimestampArray, end: str = "Z", null: str | None = None) -> pa.Array:
    """Looks dates, times of day and digits up in tables: formatting each value would cost ten times as much."""
    times = column.cast(pa.int64())
    if times.null_count:  # NULLs take a time of the others, so that the table of dates stays small
        times = times.fill_null(pc.min(times).as_py() or 0)
    times = times.to_numpy()
    if times.min() < _YEAR_0_US or times.max() >= _YEAR_10000_US:
        text = pa.array([_far_timestamp(time) + end for time in times.tolist()], pa.string())
    else:
        text = _fixed_width(times, end)
    return pc.if_else(column.is_valid(), text, pa.scalar(null, pa.string())) if column.null_count else text


def _fixed_width(times: Integers, end: str) -> pa.Array:
    days, in_day = np.divmod(times, _US_PER_DAY)
    seconds, micros = np.divmod(in_day, 1_000_000)
    thousands, units = np.divmod(micros, 1000)
    parts = [("date", "S11"), ("time", "S9"), ("thousands", "S3"), ("units", "S3"), ("end", f"S{len(end)}")]
    text = np.empty(len(times), parts)
    text["date"], text["time"], text["end"] = _dates(days), _times_of_day()[seconds], end
    text["thousands"], text["units"] = _THREE_DIGITS[thousands], _THREE_DIGITS[units]
    offsets = np.arange(len(times) + 1, dtype=np.int32) * text.itemsize
    return pa.Array.from_buffers(pa.string(), len(times), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _dates(days: Integers) -> NDArray[np.bytes_]:
    """`2026-01-31T` for each day since 1970."""
    first, last = int(days.min()), int(days.max())
    if last - first < _MOST_DAYS:
        distinct, place = np.arange(first, last + 1), days - first
    else:
        distinct, place = np.unique(days, return_inverse=True)
    names = np.datetime_as_string(distinct.astype("datetime64[D]")).astype("S10")
    return np.char.add(names, b"T")[place]


@cache
def _times_of_day() -> NDArray[np.bytes_]:
    """`23:59:59.` for each second of a day."""
    seconds = np.arange(_SECONDS_PER_DAY).astype("datetime64[s]")
    return np.array([text[11:] + "." for text in np.datetime_as_string(seconds).tolist()], "S9")


def _far_timestamp(time_us: int) -> str:
    """A time in a year that four digits cannot hold: ISO-8601 asks for a sign."""
    text = str(np.datetime64(time_us, "us"))
    year, rest = int(text[:-22]), text[-22:]
    return (f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}") + rest


def offsets_of(column: pa.StringArray) -> NDArray[np.int32]:
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]
