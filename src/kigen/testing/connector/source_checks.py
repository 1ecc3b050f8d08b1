"""Checks of sources: replay, restart at every range, nothing lost, nothing twice, bad rows named."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from kigen.connectors import InputError, Rows
from kigen.testing.connector.cases import Nonconforming, SourceCase, require
from kigen.testing.connector.reading import ALL, Reader

SIZES = (1, 5, ALL)
_MOST_RESTARTS = 12
_SKIP = "ON ERROR SKIP"


def every_row_once(case: SourceCase) -> None:
    """Reads the input in ranges of several sizes: all rows are there, once, with the declared types."""
    reader = _reader(case)
    wanted: list[tuple[Any, ...]] | None = None if case.rows is None else [_plain(row) for row in case.rows]
    whole: list[tuple[Any, ...]] | None = None
    for size in SIZES:
        found = reader.read(size)
        for rows in found.rows:
            _require_columns(reader, rows)
        values = [_plain(row) for row in found.values]
        wanted = values if wanted is None else wanted
        _require_same(f"ranges of {_size(size)}", wanted, values)
        if not found.is_partitioned:
            whole = values if whole is None else whole
            require(whole == values, f"ranges of {_size(size)} give the rows in another order than ranges of 1 row")


def a_replay_gives_the_same(case: SourceCase) -> None:
    """Reads each range again, in a new process and from the last to the first: the rows are the same, in order."""
    reader = _reader(case)
    for size in SIZES:
        found = reader.read(size)
        another = reader.opened()
        for piece, rows in reversed(list(zip(found.pieces, found.rows, strict=False))[-60:]):
            again = another.read(piece)
            what = f"the range {json.dumps(piece.to_json())}"
            require(again.table.equals(rows.table), f"{what} gives other rows when it is read again")
            require(again.skipped == rows.skipped, f"{what} skips {again.skipped} rows, and {rows.skipped} before")
            require(again.bad == rows.bad, f"{what} gives other bad rows when it is read again")
            same = list(map(int, () if again.arrivals_us is None else again.arrivals_us))
            first = list(map(int, () if rows.arrivals_us is None else rows.arrivals_us))
            require(same == first, f"{what} gives other arrival times when it is read again")
        another.close()


def a_restart_continues(case: SourceCase) -> None:
    """Stops after each range in turn, and continues in a new process at the recorded position."""
    reader = _reader(case)
    straight = reader.read(2)
    wanted = [_plain(row) for row in straight.values]
    cuts = range(len(straight.pieces))
    for cut in cuts if len(cuts) <= _MOST_RESTARTS else sorted({*cuts[:: len(cuts) // 8], cuts[-1]}):
        before = straight.until(cut + 1)
        rest = reader.read(3, straight.places[cut], before)
        values = [_plain(row) for row in (*before.values, *rest.values)]
        _require_same(f"a restart after range {cut + 1} of {len(cuts)}", wanted, values)


def progress_is_told(case: SourceCase) -> None:
    """Asks how much of a finite source lies before each position: from 0 to 1, never less than before."""
    reader = _reader(case)
    source, last = reader.opened(), 0.0
    pieces = [] if case.live else reader.read(3).pieces
    for piece in pieces:
        for position in (piece.start, piece.end):
            told = source.fraction(position)
            if told is None:
                return
            require(last <= told <= 1.0, f"fraction({position}) is {told}, after {last}")
            last = told
    require(not pieces or last == 1.0, f"fraction at the end of the input is {last}: 1.0 required")


def bad_rows_are_named(case: SourceCase) -> None:
    """Reads input with bad rows: they end the run, or are skipped, counted and listed, each with its place."""
    if not case.bad:
        return
    _one_error_ends_the_run(case)
    for size in SIZES:
        found = Reader(case, _SKIP).read(size)
        require(
            found.skipped == len(case.bad),
            f"{_size(size)}: {found.skipped} rows were skipped, and {len(case.bad)} are bad",
        )
        for rows in found.rows:
            named = rows.errors if rows.skipped else []
            require(bool(named) == bool(rows.skipped), f"{rows.skipped} rows were skipped, and `errors` names none")
            for text in named:
                require(any(place in text for place in case.bad), f"no place of {list(case.bad)} is in {text!r}")
    listed = [bad for rows in Reader(case, "ON ERROR INTO console ()").read(3).rows for bad in rows.bad]
    left = Counter(case.bad)
    for bad in listed:
        text = f"{bad.place}: {bad.reason}"
        place = next((place for place in left.elements() if place in text), None)
        require(place is not None, f"ON ERROR INTO lists {text!r}, which names no place that is left of {dict(left)}")
        left[str(place)] -= 1
    require(not +left, f"ON ERROR INTO does not list the bad rows {sorted((+left).elements())}")


SOURCE_CHECKS: tuple[Callable[[SourceCase], None], ...] = (
    every_row_once,
    a_replay_gives_the_same,
    a_restart_continues,
    progress_is_told,
    bad_rows_are_named,
)


def check_source(case: SourceCase) -> None:
    """Runs all checks of a source. Raises Nonconforming at the first that fails."""
    for check in SOURCE_CHECKS:
        check(case)


def _reader(case: SourceCase) -> Reader:
    return Reader(case, _SKIP if case.bad else "")


def _one_error_ends_the_run(case: SourceCase) -> None:
    try:
        Reader(case).read(ALL)
    except InputError as error:
        again = pickle.loads(pickle.dumps(error))
        require(
            type(again) is type(error) and str(again) == str(error), f"the error does not survive pickling: {error}"
        )
        require(any(place in str(error) for place in case.bad), f"no place of {list(case.bad)} is in '{error}'")
        return
    except Exception as error:
        message = f"a bad row must raise kigen.connectors.InputError, found {type(error).__name__}: {error}"
        raise Nonconforming(message) from error
    raise Nonconforming("a bad row must raise kigen.connectors.InputError unless the stream has ON ERROR SKIP")


def _require_columns(reader: Reader, rows: Rows) -> None:
    wanted = [(f"c{i}", column.type.arrow) for i, column in enumerate(reader.stream.schema)]
    found = [(field.name, field.type) for field in rows.table.schema if not field.name.startswith("_")]
    require(found == wanted, f"read gives the columns {found}: required are {wanted}")
    ts = rows.table.schema.get_field_index("_ts")
    require(ts >= 0 and rows.table.column(ts).type == pa.int64(), "read gives no int64 column `_ts`")
    require(rows.table.column(ts).null_count == 0, "`_ts` is NULL in some rows: such a row is a bad row")


def _require_same(what: str, wanted: Iterable[tuple[Any, ...]], found: Iterable[tuple[Any, ...]]) -> None:
    lost, more = Counter(map(repr, wanted)), Counter(map(repr, found))
    missing, twice = list((lost - more).elements()), list((more - lost).elements())
    require(not missing, f"{what}: {len(missing)} rows are lost, such as {missing[:3]}")
    require(not twice, f"{what}: {len(twice)} rows are twice or new, such as {twice[:3]}")


def _plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """Returns a row with times in UTC, so that rows of a case and of a table compare."""
    return tuple(
        (v if v.tzinfo is not None else v.replace(tzinfo=UTC)).astimezone(UTC) if isinstance(v, datetime) else v
        for v in row
    )


def _size(size: int) -> str:
    return "any size" if size == ALL else f"{size} rows"
