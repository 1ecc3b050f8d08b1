"""The results that checks of sinks write, and what readers of the output must then see.

Invariant: results depend on the number of the commit and of the write only, so a restart gives the same ones again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kigen.testing.connector.cases import require

COMMITS, WRITES, ROWS = 5, 3, 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES = ("plain", 'a "b", c', "é\n", "", "  ", "x;y\tz")
_TIMES = ("_from", "_to", "_at")
Line = tuple[Any, ...]


def table(commit: int, write: int, times: tuple[str, ...], keyed: bool) -> pa.Table:
    """Returns the results of one write: `times` are the columns after the query's own."""
    first = (commit * WRITES + write) * ROWS
    ids = list(range(first, first + ROWS))
    columns: dict[str, Any] = {
        "c0": pa.array([n % 7 if keyed else n for n in ids], pa.int64()),
        "c1": pa.array([_NAMES[n % len(_NAMES)] + str(n) for n in ids], pa.string()),
        "c2": pa.array([None if n % 5 == 3 else n / 8 for n in ids], pa.float64()),
    }
    for name in times:
        columns[name] = pa.array([_time(name, n, keyed) for n in ids], pa.string() if name == "_op" else pa.int64())
    return pa.table(columns)


def _time(name: str, n: int, keyed: bool) -> Any:
    if name == "_op":
        return "delete" if n % 3 == 2 and (keyed or n % 2) else "insert"
    return None if name == "_to" and n % 4 == 1 else 1_700_000_000_000_000 + n * 1_000_003 + (7 if name == "_to" else 0)


def expected(commits: int, times: tuple[str, ...], keyed: bool) -> list[Line]:
    """Returns what readers see after so many commits: all lines, or the newest row of each key."""
    names = ("id", "name", "value", *times)
    rows = [
        dict(zip(names, row.values(), strict=True))
        for commit in range(commits)
        for write in range(WRITES)
        for row in table(commit, write, times, keyed).to_pylist()
    ]
    if keyed:
        current: dict[int, dict[str, Any]] = {}
        for row in rows:
            current.pop(row["id"], None)
            if row["_op"] == "insert":
                current[row["id"]] = row
        rows = list(current.values())
    return [line(row, () if keyed else times) for row in rows]


def line(row: Mapping[str, Any], times: tuple[str, ...]) -> Line:
    """Returns a row of an output as a value that compares: numbers and times may have been text."""
    value = row["value"]
    found = [int(row["id"]), str(row["name"]), None if value in (None, "") else float(value)]
    return (*found, *(str(row[name]) if name == "_op" else _moment(row[name]) for name in times))


def _moment(value: Any) -> datetime | None:
    if value is None or value == "":
        return None
    if isinstance(value, int):
        return _EPOCH + timedelta(microseconds=value)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def require_lines(what: str, wanted: list[Line], found: Iterable[Mapping[str, Any]], times: tuple[str, ...]) -> None:
    """Raises Nonconforming if readers miss a row, or see one twice."""
    seen = Counter(line(row, times) for row in found)
    missing, more = list((Counter(wanted) - seen).elements()), list((seen - Counter(wanted)).elements())
    require(not missing, f"{what}: {len(missing)} of {len(wanted)} rows are lost, such as {missing[:3]}")
    require(not more, f"{what}: {len(more)} rows are there twice, or are not ours, such as {more[:3]}")
