"""Maps columns of DataFrames to types of CQL, and declares a stream for a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql import types as t

from kigen.plan.types import Schema, Type

_TYPES: dict[type[t.DataType], Type] = {
    t.BooleanType: Type.BOOLEAN,
    t.ByteType: Type.BIGINT,
    t.ShortType: Type.BIGINT,
    t.IntegerType: Type.BIGINT,
    t.LongType: Type.BIGINT,
    t.FloatType: Type.DOUBLE,
    t.DoubleType: Type.DOUBLE,
    t.StringType: Type.STRING,
    t.TimestampType: Type.TIMESTAMP,
}
_SPARK = {
    Type.BOOLEAN: "boolean",
    Type.BIGINT: "bigint",
    Type.DOUBLE: "double",
    Type.STRING: "string",
    Type.TIMESTAMP: "timestamp",
}


def declaration(name: str, frame: DataFrame, timestamp_by: str | None, lateness_s: float, source: str) -> str:
    """Returns the CREATE STREAM of a DataFrame. Raises ValueError if a column has a type that CQL lacks."""
    clauses = []
    if timestamp_by is not None:
        clauses.append(f"TIMESTAMP BY {_quoted(timestamp_by)}")
        if lateness_s:
            clauses.append(f"LATENESS {round(lateness_s * 1e6)} MICROSECONDS")
    return f"CREATE STREAM {_quoted(name)} ({_columns(name, frame)}) {' '.join(clauses)} FROM {source};"


def table_declaration(name: str, frame: DataFrame, key: Sequence[str], refresh_s: float | None) -> str:
    """Returns the CREATE TABLE of a DataFrame. Raises ValueError if a column has a type that CQL lacks."""
    keyed = f" KEY ({', '.join(_quoted(column) for column in key)})" if key else ""
    refreshed = "" if refresh_s is None else f" REFRESH EVERY {round(refresh_s * 1e6)} MICROSECONDS"
    source = "FROM spark (format = 'DataFrame')"
    return f"CREATE TABLE {_quoted(name)} ({_columns(name, frame)}) {source}{keyed}{refreshed};"


def _columns(name: str, frame: DataFrame) -> str:
    columns = []
    for field in frame.schema.fields:
        kind = _TYPES.get(type(field.dataType))
        if kind is None:
            raise ValueError(
                f"column {field.name} of the DataFrame for '{name}' has type {field.dataType.simpleString()}: "
                f"cast it to one of {', '.join(_SPARK.values())}, or drop it"
            )
        columns.append(f"{_quoted(field.name)} {kind}")
    return ", ".join(columns)


def selected(frame: DataFrame, schema: Schema) -> DataFrame:
    """Returns the declared columns of a DataFrame, with the declared types. Spark raises if one is missing."""
    return frame.select(
        *(
            F.col(f"`{column.name.replace('`', '``')}`").cast(_SPARK[column.type]).alias(column.name)
            for column in schema
        )
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
