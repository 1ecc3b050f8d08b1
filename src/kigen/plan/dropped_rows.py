"""Describes the outputs of rows that a stream drops: shed tuples, rows that cannot be read, and late tuples.

No query can have such a name. Every output also has the column `_at`: the tuple's timestamp; for a row that cannot be
read, when its batch was admitted.
"""

from __future__ import annotations

from collections.abc import Iterator

from kigen.plan.logical import Connector, SourceStream
from kigen.plan.types import Column, Schema, Type

_WHERE_AND_WHY = (Column("_place", Type.STRING), Column("_reason", Type.STRING))


def shed_output_name(stream: str) -> str:
    return f"shed {stream}"


def error_output_name(stream: str) -> str:
    return f"errors {stream}"


def late_output_name(stream: str) -> str:
    return f"late {stream}"


def dropped_outputs(stream: SourceStream) -> Iterator[tuple[str, str, Connector, Schema]]:
    """Yields the name, a short name, the connector and the columns of each output for what the stream drops."""
    if stream.shed is not None and stream.shed.into is not None:
        yield shed_output_name(stream.name), "shed", stream.shed.into, stream.schema
    if stream.error_into is not None:
        yield error_output_name(stream.name), "errors", stream.error_into, error_schema()
    if stream.late_into is not None:
        yield late_output_name(stream.name), "late", stream.late_into, late_schema(stream)


def error_schema() -> Schema:
    """Returns the columns of rows that cannot be read: the row as text, where it is, and what is wrong."""
    return (Column("_row", Type.STRING), *_WHERE_AND_WHY)


def late_schema(stream: SourceStream) -> Schema:
    """Returns the columns of late tuples: those of the stream, where the tuple came from, and how late it is."""
    return (*stream.schema, *_WHERE_AND_WHY)
