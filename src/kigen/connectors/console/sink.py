"""Prints `INTO console`: results as lines on standard output, for people. Printed lines cannot be withdrawn, so a
replay prints them again. With `mode = 'changes'` a line begins with + when its row becomes true, and with - when it no
longer is."""

from __future__ import annotations

import sys

import pyarrow as pa

from kigen.connectors.encoding import output_columns
from kigen.connectors.requests import SinkRequest
from kigen.connectors.sink_base import Sink, SinkPosition
from kigen.lifetimes.results.changes import INSERT
from kigen.plan.types import Type

_LONGEST = 1000  # lines per table


class ConsoleSink(Sink):
    def __init__(self, asked: SinkRequest) -> None:
        super().__init__(asked.schema, asked.is_stream, asked.changes)
        self.name = asked.query

    def open(self, position: SinkPosition | None) -> None:
        pass

    def write(self, table: pa.Table) -> None:
        columns = output_columns(table.slice(0, _LONGEST), self.schema, self.is_stream, self.changes)
        shown = [_texts(column, "NULL" if i < len(self.schema) else "?") for i, column in enumerate(columns)]
        for row in zip(*shown, strict=True):
            values = ", ".join(f"{column.name} = {text}" for column, text in zip(self.schema, row, strict=False))
            sys.stdout.write(f"{self.name}  {self._when(row[len(self.schema) :])}  {values}\n")
        if table.num_rows > _LONGEST:
            sys.stdout.write(f"{self.name}  ... and {table.num_rows - _LONGEST} more\n")

    def _when(self, texts: tuple[str, ...]) -> str:
        if not self.changes:
            return " .. ".join(texts)
        op, at = texts
        return f"{at}  {'+' if op == repr(INSERT) else '-'}"

    def commit(self) -> SinkPosition:
        sys.stdout.flush()
        return {}

    def close(self) -> None:
        sys.stdout.flush()


def _texts(column: pa.ChunkedArray, missing: str) -> list[str]:
    if column.type == Type.TIMESTAMP.arrow:
        column = column.cast(pa.string())
        return [missing if v is None else v.replace(" ", "T") + "Z" for v in column.to_pylist()]
    return [missing if v is None else repr(v) if isinstance(v, str) else str(v) for v in column.to_pylist()]
