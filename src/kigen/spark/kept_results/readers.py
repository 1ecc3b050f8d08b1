"""Readers of Spark for kept results: of the format `kigen` with the options `path` and `query`.

Spark records offsets in its own checkpoint and reads a range again after a failure, so every row of the results enters
the query of the reader once. Executors read the files of the checkpoint themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kigen.spark.kept_results.kept import KeptResults, Offset, kept_results


def kept_by(options: Mapping[str, str]) -> KeptResults:
    """Returns the results that the options of a read name."""
    return kept_results(options.get("path"), options.get("query"), options.get("mode"))


def schema_of(options: Mapping[str, str]) -> StructType:
    """Returns the columns of the results; times are instants."""
    return from_arrow_schema(kept_by(options).arrow_schema)


class ResultsReader(DataSourceReader):
    """Reads what is committed now."""

    def __init__(self, kept: KeptResults) -> None:
        self._kept = kept

    def partitions(self) -> Sequence[InputPartition]:
        start = self._kept.first()
        return _partitions(self._kept, start, self._kept.latest(start))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._kept, partition)


class ResultsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a run commits while it goes on, from the oldest result that is kept."""

    def __init__(self, kept: KeptResults) -> None:
        self._kept = kept
        self._end: int | None = None  # with the trigger availableNow: how far to read

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._end = self._kept.committed()

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return self._kept.first()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        end, unit = self._kept.latest(start), self._kept.unit
        if self._end is not None:
            end = {unit: max(start[unit], min(end[unit], self._end))}
        return start if end[unit] == start[unit] and not start.get("begins") else end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return _partitions(self._kept, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._kept, partition)


def _batches(kept: KeptResults, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yields rows in the very Arrow types that Spark expects, down to the names of the items of lists."""
    wanted = to_arrow_schema(from_arrow_schema(kept.arrow_schema), timezone="UTC")
    for batch in kept.read(*partition.value):
        yield from pa.Table.from_batches([batch]).cast(wanted).to_batches()


def _partitions(kept: KeptResults, start: Offset, end: Offset) -> list[InputPartition]:
    return [InputPartition(piece) for piece in kept.partitions(start, end)]
