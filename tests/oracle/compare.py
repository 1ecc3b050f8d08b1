"""Compares an engine's output with the oracle's answer, and reports readably where they differ.

The lines of a relation become the bag at every instant at which either side changes; the lines of a stream become the
bag of each `_at`. Doubles must agree to 1e-9, relative or absolute; everything else must be equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from oracle.evaluate import Bag, Oracle
from oracle.render_cql import app_text, csv_text, iso, query_text
from oracle.rfc4180 import records
from oracle.shapes import App, Col, Query, Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """A line of output. Of a stream: `at`, and `to` is None. Of a relation: `at` and `to` are `_from` and `_to` (`to`
    is None if undetermined)."""

    row: Row
    at: int
    to: int | None = None


# --- reading an engine's output -----------------------------------------------------------------------------------


def lines_of_table(table: pa.Table, query: Query) -> list[Line]:
    """Reads the kernel's output: columns c0.., then `_from`, `_to` or `_at` in microseconds."""
    columns = []
    for k, col in enumerate(query.cols):
        column = table.column(f"c{k}")
        columns.append(column.cast(pa.int64()).to_pylist() if col.type == "TIMESTAMP" else column.to_pylist())
    rows: Iterable[Row] = zip(*columns, strict=True)
    if query.kind is not None:
        return [Line(row, at) for row, at in zip(rows, table.column("_at").to_pylist(), strict=True)]
    lives = zip(table.column("_from").to_pylist(), table.column("_to").to_pylist(), strict=True)
    return [Line(row, born, dies) for row, (born, dies) in zip(rows, lives, strict=True)]


def microseconds(text: str) -> int:
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def value_of(text: str | None, kind: str) -> Any:
    """Parses a field. `None` is an unquoted empty field. Raises ValueError if the field does not have the type."""
    if text is None:
        return None
    if kind == "STRING":
        return text
    if kind == "BOOLEAN":
        return {"true": True, "false": False}[text]
    return int(text) if kind == "BIGINT" else float(text) if kind == "DOUBLE" else microseconds(text)


def same_names(got: Sequence[str | None], wanted: Sequence[str]) -> bool:
    """Compares names. A repeated name may be numbered (x, x_1), as DuckDB does in the header of a file."""
    if len(got) != len(wanted):
        return False
    firsts = {name: wanted.index(name) for name in wanted}
    return all(
        g == w or (firsts[w] < k and (g or "").startswith(f"{w}_"))
        for k, (g, w) in enumerate(zip(got, wanted, strict=True))
    )


def lines_of_csv(path: Path, query: Query) -> list[Line]:
    """Reads a file of `--output DIR` (DESIGN 8.2), and checks its header."""
    found = records(path.read_bytes().decode("utf-8"))
    ends = ["_at"] if query.kind is not None else ["_from", "_to"]
    wanted = [c.name for c in query.cols] + ends
    if not found or found[0][-len(ends) :] != ends or not same_names(found[0][: -len(ends)], wanted[: -len(ends)]):
        raise AssertionError(f"{path.name}: header {found[:1]}, required {wanted}")
    lines = []
    for record in found[1:]:
        times = [None if t is None else microseconds(t) for t in record[len(query.cols) :]]
        if len(record) != len(wanted) or times[0] is None:
            raise AssertionError(f"{path.name}: {record}, required the fields {wanted}")
        row = tuple(value_of(text, c.type) for text, c in zip(record, query.cols, strict=False))
        lines.append(Line(row, times[0], times[1] if len(times) > 1 else None))
    return lines


# --- bags with tolerant doubles -----------------------------------------------------------------------------------


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def same_row(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(close(x, y) for x, y in zip(a, b, strict=True))


def unmatched(expected: Bag, got: Bag) -> tuple[list[Row], list[Row]]:
    """Pairs equal rows and returns the rest of both sides. Doubles need only be close."""
    if expected == got:
        return [], []
    missing, extra = list((expected - got).elements()), list((got - expected).elements())
    for row in list(missing):
        twin = next((other for other in extra if same_row(row, other)), None)
        if twin is not None:
            missing.remove(row)
            extra.remove(twin)
    return missing, extra


def same_bag(expected: Bag, got: Bag) -> bool:
    return unmatched(expected, got) == ([], [])


def line_difference(a: Sequence[Line], b: Sequence[Line]) -> str:
    """Compares two outputs as bags of lines, ghosts and deaths included. Returns what differs; empty if nothing
    does."""
    left: Bag = Counter((x.at, x.to, *x.row) for x in a)
    right: Bag = Counter((x.at, x.to, *x.row) for x in b)
    missing, extra = unmatched(left, right)
    return "" if not missing and not extra else f"only in the first: {missing[:8]}\nonly in the second: {extra[:8]}"


# --- the judgement ------------------------------------------------------------------------------------------------


def judge(oracle: Oracle, query: Query, lines: Sequence[Line]) -> str:
    """Returns a report of what is wrong with the lines; empty if they are right."""
    end = oracle.end(query)
    if end is None:
        return (
            ""
            if not lines
            else _report(oracle, query, None, Counter(), Counter(x.row for x in lines), "all inputs are empty")
        )
    late = [x for x in lines if x.at > end]
    if late:
        return _report(
            oracle,
            query,
            late[0].at,
            Counter(),
            Counter(x.row for x in late),
            "lines after the last timestamp of the inputs",
        )
    return _judge_relation(oracle, query, lines, end) if query.kind is None else _judge_stream(oracle, query, lines)


def _judge_stream(oracle: Oracle, query: Query, lines: Sequence[Line]) -> str:
    expected: dict[int, Bag] = {}
    got: dict[int, Bag] = {}
    for t, row in oracle.stream(query):
        expected.setdefault(t, Counter())[row] += 1
    for line in lines:
        got.setdefault(line.at, Counter())[line.row] += 1
    for t in sorted(expected.keys() | got.keys()):
        if not same_bag(expected.get(t, Counter()), got.get(t, Counter())):
            return _report(oracle, query, t, expected.get(t, Counter()), got.get(t, Counter()), "the stream differs")
    return ""


def _judge_relation(oracle: Oracle, query: Query, lines: Sequence[Line], end: int) -> str:
    relation = oracle.relation(query)
    changes: dict[int, list[tuple[Row, int]]] = {t: [] for t in relation.instants}
    for line in lines:
        if line.to is not None and line.to <= line.at:
            continue  # a ghost: never visible
        changes.setdefault(line.at, []).append((line.row, 1))
        if line.to is not None and line.to <= end:
            changes.setdefault(line.to, []).append((line.row, -1))
    got: Bag = Counter()
    for t in sorted(changes):
        for row, by in changes[t]:
            got[row] += by
            if got[row] == 0:
                del got[row]
        if not same_bag(relation.at(t), got):
            return _report(oracle, query, t, relation.at(t), got, "the relation differs")
    return ""


def _report(oracle: Oracle, query: Query, t: int | None, expected: Bag, got: Bag, what: str) -> str:
    missing, extra = unmatched(expected, got)
    out = [f"seed {oracle.app.seed}, query {query.name}: {what}" + (f" at {iso(t)} ({t})" if t is not None else "")]
    out += [f"  missing {missing[:10]}", f"  extra   {extra[:10]}", f"  columns {shown_columns(query.cols)}"]
    end = oracle.end(query)
    if t is not None and end is not None:
        for w, rows in oracle.alive(query.body, t, end).items():
            out.append(f"  alive in {w.source} [{w.window.text}]: {rows[:20]}")
            before = oracle.alive(query.body, t - 1, end)[w]
            if before != rows:
                out.append(f"  alive just before: {before[:20]}")
    return "\n".join([*out, query_text(query)])


def shown_columns(cols: Sequence[Col]) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in cols)


def whole_app(app: App) -> str:
    """Returns the app and its files as text, for a bug report."""
    return app_text(app) + "".join(f"--- {s.name}.csv\n{csv_text(s)}" for s in app.streams)
