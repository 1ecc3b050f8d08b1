"""Generates the values of a synthetic column: `'normal(m, s)'`, `'uniform(a, b)'`, `'sequence'`, `'choice(a, b, c)'`,
`'zipf(s, n)'`.

Invariant: the values of tuples first..end-1 depend on (seed, stream, column, indices) alone. BIGINT columns round. In a
TIMESTAMP column a number is seconds after the scheduled time; without a generator the value is the scheduled time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kigen.connectors.casting import convert
from kigen.connectors.options import OptionError
from kigen.connectors.synthetic.random_chunks import CHUNK, chunk_generator, series_key
from kigen.plan.types import Column, Type

Floats = npt.NDArray[np.float64]
Make = Callable[[int, int, npt.NDArray[np.int64]], pa.Array]  # first, end, scheduled times in microseconds
_CALL = re.compile(r"\s*([a-z]+)\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
_FORMS = "'normal(20, 5)', 'uniform(0, 100)', 'sequence', 'choice(a, b, c)' or 'zipf(1.2, 1000)'"
_DEFAULTS = {
    Type.BOOLEAN: "choice(true, false)",
    Type.BIGINT: "sequence",
    Type.DOUBLE: "uniform(0, 100)",
    Type.STRING: "choice(a, b, c, d)",
}
_KEPT = 2  # chunks per column
_FEW = 32  # tuples: below it, Python is quicker than Arrow's `take`
_LARGEST_ZIPF = 10_000_000


def column_generator(stream: str, seed: int, column: Column, text: Any) -> Make:
    """Returns the generator of a column. `text` is the option's value; None means the default of the column's type."""
    if text is None and column.type is Type.TIMESTAMP:
        return lambda first, end, times: pa.array(times).view(pa.timestamp("us"))
    if text is None and column.type in (Type.DATE, Type.TIME):
        return lambda first, end, times: pa.array(times).view(pa.timestamp("us")).cast(column.type.arrow)
    text = _DEFAULTS.get(column.type, _DEFAULTS[Type.DOUBLE]) if text is None else text
    match = _CALL.fullmatch(text) if isinstance(text, str) else None
    kind = match.group(1).lower() if match else ""
    arguments = [a.strip() for a in (match.group(2) or "").split(",")] if match and match.group(2) is not None else []
    key = series_key(seed, stream, column.name)
    owner = f"stream '{stream}': {column.name} = {text!r}"
    if kind == "sequence" and not arguments and column.type is not Type.TIMESTAMP and _is_drawn(column.type):
        return lambda first, end, times: _as_type(np.arange(first, end, dtype=np.int64), column.type, times)
    if kind == "choice" and arguments:
        return _choice(owner, key, column, arguments)
    draw = _numeric(owner, kind, arguments)
    if draw is None or not _is_drawn(column.type):
        raise OptionError(f"{owner} is not a generator of {column.type} values: write {_FORMS}", column.name)
    series = _Series(key, draw)
    return lambda first, end, times: _as_type(series.values(first, end), column.type, times)


def _is_drawn(kind: Type) -> bool:
    """Returns whether a column of the type can be drawn as numbers; `choice` draws all types."""
    return kind.is_decimal or kind in (Type.BIGINT, Type.DOUBLE, Type.STRING, Type.TIMESTAMP)


class _Series:
    """Values of a series, drawn in whole chunks: the value of a tuple must not depend on where the range began. A live
    stream needs the same chunk many times, so the last ones are kept."""

    def __init__(self, key: int, draw: Callable[[np.random.Generator], Any]) -> None:
        self._key, self._draw = key, draw
        self._recent: dict[int, Any] = {}

    def values(self, first: int, end: int) -> Any:
        head, last = first // CHUNK, max(first, end - 1) // CHUNK
        if head == last:
            return self._chunk(head)[first - head * CHUNK : max(end, first) - head * CHUNK]
        drawn = np.concatenate([self._chunk(k) for k in range(head, last + 1)])
        return drawn[first - head * CHUNK : end - head * CHUNK]

    def _chunk(self, chunk: int) -> Any:
        if chunk not in self._recent:
            if len(self._recent) >= _KEPT:
                self._recent.pop(next(iter(self._recent)))
            self._recent[chunk] = self._draw(chunk_generator(self._key, chunk))
        return self._recent[chunk]


def _numeric(owner: str, kind: str, arguments: list[str]) -> Callable[[np.random.Generator], Any] | None:
    try:
        numbers = [float(a) for a in arguments]
    except ValueError:
        return None
    if len(numbers) != 2 or not np.isfinite(numbers).all():
        return None
    a, b = numbers
    if kind == "normal" and b >= 0:
        return lambda generator: generator.normal(a, b, CHUNK)
    if kind == "uniform" and a <= b:
        return lambda generator: generator.uniform(a, b, CHUNK)
    if kind == "zipf" and a >= 0 and b == int(b) and 1 <= b <= _LARGEST_ZIPF:
        weights = np.cumsum(np.arange(1, int(b) + 1, dtype=np.float64) ** -a)
        limits = weights / weights[-1]
        return lambda generator: np.searchsorted(limits, generator.random(CHUNK), side="right") + 1
    return None


def _choice(owner: str, key: int, column: Column, arguments: list[str]) -> Make:
    texts = [a[1:-1] if len(a) > 1 and a[0] == a[-1] and a[0] in "'\"" else a for a in arguments]
    values, bad = convert(pa.array([t.encode() for t in texts], pa.binary()), column.type)
    if len(bad):
        raise OptionError(f"{owner}: {texts[int(bad[0])]!r} is not a {column.type}", column.name)

    series = _Series(key, lambda generator: generator.integers(0, len(texts), CHUNK))
    plain = values.to_pylist() if column.type is not Type.TIMESTAMP else None

    def make(first: int, end: int, times: npt.NDArray[np.int64]) -> pa.Array:
        picks = series.values(first, end)
        if plain is not None and len(picks) <= _FEW:
            return pa.array([plain[pick] for pick in picks.tolist()], values.type)
        return values.take(pa.array(picks))

    return make


def _as_type(values: Any, type_: Type, times: npt.NDArray[np.int64]) -> pa.Array:
    if type_ is Type.DOUBLE:
        return pa.array(values.astype(np.float64))
    if type_ is Type.TIMESTAMP:
        return pa.array(times + np.rint(values * 1e6).astype(np.int64)).view(pa.timestamp("us"))
    if type_.is_decimal:
        return pa.array(values.astype(np.float64)).cast(type_.arrow)
    whole = pa.array(np.rint(values).astype(np.int64))
    if type_ is Type.STRING and values.dtype.kind == "f":
        return pa.array(values).cast(pa.string())
    return whole.cast(type_.arrow)
