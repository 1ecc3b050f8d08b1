"""A picture of lifetimes: one panel a query, one lane a value of its first text column, a bar from birth to death;
stream tuples as marks.

Bars are coloured by the first number of the row. Reads the files that `--output` wrote; rows still alive reach the
right edge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy
import polars as pl

MAX_LANES = 16
_INK, _GRID = "#222233", "#dddde6"


class NothingToDraw(ValueError):
    """The folder holds no result files."""


def draw_lifetimes(directory: Path, target: Path, queries: list[str] | None = None) -> list[str]:
    """Draw `<query>.csv` files of a folder into `target`; gives the queries drawn, in order."""
    files = sorted(directory.glob("*.csv"))
    if queries:
        files = [directory / f"{name}.csv" for name in queries]
    missing = [f.name for f in files if not f.exists()]
    if missing or not files:
        raise NothingToDraw(f"no {', '.join(missing) or 'results'} in {directory}: run with --output {directory} first")
    frames = {f.stem: _read(f) for f in files}
    _draw(frames, target)
    return list(frames)


def _read(path: Path) -> pl.DataFrame:
    frame = pl.read_csv(path, infer_schema_length=None)
    times = [c for c in ("_from", "_to", "_at") if c in frame.columns]
    return frame.with_columns(
        pl.col(c).cast(pl.String).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", strict=False) for c in times
    )


def _draw(frames: dict[str, pl.DataFrame], target: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    heights = [1.0 + 0.28 * len(_lanes(frame)[1]) for frame in frames.values()]
    figure, axes = pyplot.subplots(
        len(frames), 1, figsize=(12, sum(heights) + 0.4), sharex=True, squeeze=False, height_ratios=heights
    )
    times = [f[c].max() for f in frames.values() for c in ("_from", "_to", "_at") if c in f.columns]
    last = max((t for t in times if t is not None), default=None)
    for axis, (name, frame) in zip(axes[:, 0], frames.items(), strict=True):
        _panel(axis, name, frame, last)
    figure.autofmt_xdate(rotation=0, ha="center")
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


def _bars(axis: Any, lane: Any, start: Any, end: Any, colours: Any) -> None:
    """All bars as one collection: a hundred thousand lifetimes take a second, not minutes."""
    from matplotlib.collections import PolyCollection

    corners = (
        numpy.stack([start, start, end, end], axis=1),
        numpy.stack([lane - 0.36, lane + 0.36, lane + 0.36, lane - 0.36], axis=1),
    )
    axis.add_collection(
        PolyCollection(list(numpy.stack(corners, axis=2)), facecolors=colours, edgecolors="none", antialiased=False)
    )
    axis.autoscale_view()
    axis.xaxis_date()


def _days(times: pl.Series) -> Any:
    """Days since 1970, as matplotlib counts."""
    return times.dt.epoch("us").to_numpy() / 86_400e6


def _lanes(frame: pl.DataFrame) -> tuple[pl.Series, list[str]]:
    """The lane of each row, by name, and the lanes from top to bottom."""
    plain = [c for c in frame.columns if c not in ("_from", "_to", "_at")]
    text = next((c for c in plain if frame.schema[c] == pl.String), plain[0])
    names = frame[text].cast(pl.String).fill_null("NULL")
    common = names.value_counts(sort=True)[text].to_list()[:MAX_LANES]
    return names, sorted(common)


def _panel(axis: Any, name: str, frame: pl.DataFrame, last: Any) -> None:
    names, lanes = _lanes(frame)
    row_of = {lane: i for i, lane in enumerate(lanes)}
    lane = names.replace_strict(row_of, default=None, return_dtype=pl.Int64)
    shown = frame.with_columns(lane.alias("_lane")).filter(pl.col("_lane").is_not_null())
    number = next((c for c in frame.columns if frame.schema[c].is_numeric()), None)
    colours: Any = "#3b6fb6"
    axis.set_title(
        f"{name}   ({len(frame):,} lines)" + (f", coloured by {number}" if number else ""),
        loc="left",
        fontsize=10,
        color=_INK,
    )
    if number is not None and len(shown):
        values = shown[number].cast(pl.Float64).fill_null(0)
        low, high = float(values.min() or 0), float(values.max() or 0)  # type: ignore[arg-type]  # of floats, polars says any type
        colours = matplotlib.colormaps["turbo"](0.08 + 0.84 * (values.to_numpy() - low) / ((high - low) or 1))
    if "_at" in frame.columns:
        axis.xaxis_date()
        axis.scatter(_days(shown["_at"]), shown["_lane"].to_list(), c=colours, marker="D", s=16, zorder=3)
    elif len(shown):
        _bars(axis, shown["_lane"].to_numpy(), _days(shown["_from"]), _days(shown["_to"].fill_null(last)), colours)
    axis.set_yticks(range(len(lanes)), lanes, fontsize=8)
    axis.set_ylim(len(lanes) - 0.4, -0.6)
    axis.grid(axis="x", color=_GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(length=0, colors=_INK)
