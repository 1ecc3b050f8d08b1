"""Draws results as a picture of lifetimes: a panel per query, a lane per value of its first text column.

A row of a relation is a bar from birth to death, a tuple of a stream is a diamond. Both are coloured by the first
number of the row. Input are the files that `--output` wrote. Rows that are still alive reach the right edge.
"""

from __future__ import annotations

from collections import Counter
from csv import reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from kigen.cli.pictures.drawing import load_matplotlib

MAX_LANES = 16
_INK, _GRID = "#222233", "#dddde6"
_TIMES = ("_from", "_to", "_at")
_NUMBERS = (pa.int64(), pa.float64())
_US_PER_DAY = 86_400e6
Floats = NDArray[np.float64]


class NothingToDraw(ValueError):
    """The folder holds no result files."""


@dataclass(frozen=True)
class Results:
    """Rows of one result file. Times are in days since 1970, as matplotlib counts; NaN where there is none."""

    names: list[str]
    columns: list[pa.ChunkedArray]
    times: dict[str, Floats]

    def __len__(self) -> int:
        return len(next(iter(self.times.values())))


def draw_lifetimes(directory: Path, target: Path, queries: list[str] | None = None) -> list[str]:
    """Draws the `<query>.csv` files of a folder into `target`. Returns the queries that were drawn, in order."""
    files = sorted(directory.glob("*.csv"))
    if queries:
        files = [directory / f"{name}.csv" for name in queries]
    missing = [f.name for f in files if not f.exists()]
    if missing or not files:
        raise NothingToDraw(f"no {', '.join(missing) or 'results'} in {directory}: run with --output {directory} first")
    load_matplotlib()
    results = {f.stem: _read(f) for f in files}
    _draw(results, target)
    return list(results)


def _read(path: Path) -> Results:
    """Reads every column as text and then finds its type: the file does not say it, and names may repeat."""
    with path.open(encoding="utf-8", newline="") as file:
        names = next(reader(file))
        is_empty = not file.read(1)
    unique = [f"x{i}" for i in range(len(names))]
    types = dict.fromkeys(unique, pa.string())
    if is_empty:
        table = pa.schema(types).empty_table()
    else:
        table = csv.read_csv(
            path,
            csv.ReadOptions(column_names=unique, skip_rows=1),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
            ),
        )
    values = [(name, _typed(column)) for name, column in zip(names, table.columns, strict=True) if name not in _TIMES]
    times = {name: _days(column) for name, column in zip(names, table.columns, strict=True) if name in _TIMES}
    return Results([name for name, _ in values], [column for _, column in values], times)


def _typed(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Casts a column of text to the first type that holds all its values."""
    if texts.null_count < len(texts):
        for kind in (*_NUMBERS, pa.bool_()):
            try:
                return texts.cast(kind)
            except pa.ArrowInvalid:
                continue
    return texts


def _days(texts: pa.ChunkedArray) -> Floats:
    """Times that a calendar of four-digit years cannot hold count as unknown: matplotlib cannot draw them."""
    times = pd.to_datetime(pd.Series(texts.to_pylist(), dtype=object), format="ISO8601", utc=True, errors="coerce")
    known = times.notna().to_numpy()
    days = np.full(len(known), np.nan)
    days[known] = times[known].dt.tz_localize(None).to_numpy().astype("datetime64[us]").astype(np.int64) / _US_PER_DAY
    return days


def _draw(results: dict[str, Results], target: Path) -> None:
    from matplotlib import pyplot

    heights = [1.0 + 0.28 * len(_lanes(result)[1]) for result in results.values()]
    figure, axes = pyplot.subplots(
        len(results), 1, figsize=(12, sum(heights) + 0.4), sharex=True, squeeze=False, height_ratios=heights
    )
    every = np.concatenate([days for result in results.values() for days in result.times.values()])
    last = float(np.nanmax(every)) if np.isfinite(every).any() else np.nan
    for axis, (name, result) in zip(axes[:, 0], results.items(), strict=True):
        _panel(axis, name, result, last)
    figure.autofmt_xdate(rotation=0, ha="center")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


def _lanes(result: Results) -> tuple[list[str], list[str]]:
    """Returns the lane of each row, by name, and the most common lanes from top to bottom."""
    first_text = next((column for column in result.columns if column.type == pa.string()), result.columns[0])
    names = pc.fill_null(first_text.cast(pa.string()), "NULL").to_pylist()
    return names, sorted(name for name, _ in Counter(names).most_common(MAX_LANES))


def _panel(axis: Any, name: str, result: Results, last: float) -> None:
    names, lanes = _lanes(result)
    lane_of = {lane: i for i, lane in enumerate(lanes)}
    lane = np.array([lane_of.get(n, -1) for n in names], np.int64)
    shown = lane >= 0
    number = next((i for i, column in enumerate(result.columns) if column.type in _NUMBERS), None)
    title = f"{name}   ({len(result):,} lines)" + (
        f", coloured by {result.names[number]}" if number is not None else ""
    )
    axis.set_title(title, loc="left", fontsize=10, color=_INK)
    colours: Any = "#3b6fb6" if number is None or not shown.any() else _colours(result.columns[number])[shown]
    if "_at" in result.times:
        axis.xaxis_date()
        axis.scatter(result.times["_at"][shown], lane[shown], c=colours, marker="D", s=16, zorder=3)
    elif shown.any():
        end = np.where(np.isnan(result.times["_to"]), last, result.times["_to"])
        _bars(axis, lane[shown], result.times["_from"][shown], end[shown], colours)
    axis.set_yticks(range(len(lanes)), lanes, fontsize=8)
    axis.set_ylim(len(lanes) - 0.4, -0.6)
    axis.grid(axis="x", color=_GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0, colors=_INK)


def _colours(column: pa.ChunkedArray) -> Any:
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy()
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return load_matplotlib().colormaps["turbo"](0.08 + 0.84 * (values - low) / ((high - low) or 1))


def _bars(axis: Any, lane: Any, start: Floats, end: Floats, colours: Any) -> None:
    """Draws all bars as one collection: a hundred thousand lifetimes then take a second, not minutes."""
    from matplotlib.collections import PolyCollection

    corners = (
        np.stack([start, start, end, end], axis=1),
        np.stack([lane - 0.36, lane + 0.36, lane + 0.36, lane - 0.36], axis=1),
    )
    axis.add_collection(
        PolyCollection(list(np.stack(corners, axis=2)), facecolors=colours, edgecolors="none", antialiased=False)
    )
    axis.autoscale_view()
    axis.xaxis_date()
