"""Keeps what a pushed stream leaves out of its queue, in the notes of batches: bad rows, tuples that SHED removes,
fields that it does not declare, and declared columns that a batch does not have.

Invariant: what a batch left out is read with its first tuple, so it is counted and written once, as the tuple is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kigen.connectors.bad_rows import KEPT
from kigen.connectors.source_base import BadRow, Rows
from kigen.connectors.values.missing_columns import Missing, merged_missing
from kigen.connectors.values.unknown_fields import Unknown, merged
from kigen.plan.logical import SourceStream
from kigen.plan.types import arrow_schema


@dataclass(frozen=True)
class LeftOut:
    """Rows that a stream leaves out: how many, the first few errors, and the rows if the stream has an output for
    them."""

    skipped: int = 0
    errors: list[str] = field(default_factory=list)
    bad: tuple[BadRow, ...] = ()
    shed: int = 0
    shed_rows: tuple[pa.Table, ...] = ()
    unknown: Unknown = field(default_factory=dict)  # fields that the stream does not declare
    missing: Missing = field(default_factory=dict)  # declared columns that batches do not have

    def plus(self, skipped: int, errors: list[str], bad: tuple[BadRow, ...]) -> LeftOut:
        errors = [*self.errors, *errors][:KEPT]
        return replace(self, skipped=self.skipped + skipped, errors=errors, bad=self.bad + bad)

    def with_rows(self, rows: Rows) -> LeftOut:
        return self.plus(rows.skipped, rows.errors, rows.bad).with_unknown(rows.unknown).with_missing(rows.missing)

    def with_unknown(self, unknown: Unknown) -> LeftOut:
        return replace(self, unknown=merged([self.unknown, unknown])) if unknown else self

    def with_missing(self, missing: Missing) -> LeftOut:
        return replace(self, missing=merged_missing([self.missing, missing])) if missing else self

    def with_shed(self, stream: SourceStream, gone: pa.Table) -> LeftOut:
        """Adds tuples that SHED removed. They have `_ts`, their arrival."""
        if not gone.num_rows:
            return self
        keeps = stream.shed is not None and stream.shed.into is not None
        return replace(self, shed=self.shed + gone.num_rows, shed_rows=self.shed_rows + ((gone,) if keeps else ()))

    def shed_table(self, stream: SourceStream) -> pa.Table | None:
        """Returns the tuples that SHED removed; rows of NULL, to be counted, if nothing wants to have them."""
        if not self.shed:
            return None
        if self.shed_rows:
            return pa.concat_tables(self.shed_rows)
        columns = [pa.nulls(self.shed, kind.type) for kind in arrow_schema(stream.schema)]
        names = [f"c{i}" for i in range(len(columns))]
        return pa.table([*columns, pa.nulls(self.shed, pa.int64())], names=[*names, "_ts"])

    def to_json(self) -> dict[str, Any]:
        note: dict[str, Any] = {}
        if self.skipped:
            note |= {"skipped": self.skipped, "errors": self.errors}
        if self.bad:
            note["bad"] = [[row.text, row.place, row.reason] for row in self.bad]
        if self.shed:
            note["shed"] = self.shed
        if self.unknown:
            note["unknown"] = dict(self.unknown)
        if self.missing:
            note["missing"] = dict(self.missing)
        if self.shed_rows:
            table, body = pa.concat_tables(self.shed_rows), pa.BufferOutputStream()
            with pa.ipc.new_stream(body, table.schema) as writer:
                writer.write_table(table)
            note["shed_rows"] = base64.b64encode(body.getvalue()).decode()
        return note


def left_out_of(notes: Sequence[str]) -> LeftOut:
    """Returns what was left out of batches with these notes."""
    found = LeftOut()
    for value in map(json.loads, notes):
        bad = tuple(BadRow(*entry) for entry in value.get("bad", ()))
        found = found.plus(value.get("skipped", 0), value.get("errors", []), bad).with_unknown(value.get("unknown", {}))
        found = found.with_missing(value.get("missing", {}))
        rows = value.get("shed_rows")
        tables = () if rows is None else (pa.ipc.open_stream(base64.b64decode(rows)).read_all(),)
        found = replace(found, shed=found.shed + value.get("shed", 0), shed_rows=found.shed_rows + tables)
    return found
