"""Result of a run: the report of `kigen run --report`, and the results of queries as DataFrames and tables."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kigen.engine.errors import ArgumentError
from kigen.engine.options import RunOptions
from kigen.plan.logical import App
from kigen.spark.sink.metrics import Metrics
from kigen.spark.sink.results import into_sink, read_arrow, read_dataframe, results_sink

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kigen.connectors.parquet.sink import ParquetSink

Report = dict[str, Any]


def report_of(app: App, options: RunOptions, metrics: Metrics, wall_s: float, policy: dict[str, Any]) -> Report:
    """Returns the report of DESIGN 8.2 as JSON."""
    return {
        "policy": options.scheduling[0],
        "lifetime": options.lifetime,
        "wall_s": round(wall_s, 3),
        "batches": metrics.batches,
        "batch_ms": metrics.batch.quantiles_ms(50, 95),
        "queries": {query.name: metrics.queries[query.name].report(query.deadline_us) for query in app.queries},
        "costs": policy.get("costs"),  # learnt by the cost model: of a micro-batch, and per tuple of each task
        "streams": {
            stream.name: {
                "unknown_fields": dict(metrics.unknown.get(stream.name, {})),
                "missing_columns": {name: rows for name, (rows, _) in metrics.missing.get(stream.name, {}).items()},
            }
            for stream in app.streams
        },
    }


class RunResult:
    """Result of a run.

    Results of queries are parquet files. Without a checkpoint they are temporary: they are deleted with this object, or
    with the Spark session once `dataframe` has handed them out. With a checkpoint they stay in it.

    Attributes:
        report: Counts and latencies per query, as `kigen run --report` writes them.
        finished: Whether all streams have ended and every row is written.

    >>> result = engine.run("rooms.cql", drain=True)
    >>> result.finished, result.report["queries"]["hot"]["in"]
    (True, 4)
    """

    def __init__(
        self, app: App, report: Report, finished: bool, results: Path | None, spark: SparkSession | None, scratch: Path
    ) -> None:
        self.report, self.finished = report, finished
        self._app, self._results, self._spark, self._scratch = app, results, spark, scratch
        self._finalizer: weakref.finalize[..., Any] = weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)

    @property
    def queries(self) -> list[str]:
        """Names of the queries, in the order of the app.

        >>> result.queries
        ['hot']
        """
        return [query.name for query in self._app.queries]

    def dataframe(self, query: str) -> DataFrame:
        """Returns the results of a query as a Spark DataFrame, which Spark reads from the files.

        Columns are those of the query, then `_from` and `_to` for a relation, or `_at` for a stream, as timestamps.

        Raises:
            KeyError: There is no such query.
            ValueError: The run kept no results.

        >>> result.dataframe("hot").where("mean > 22").select("room", "mean").show()
        +-------+----+
        |   room|mean|
        +-------+----+
        |kitchen|24.0|
        +-------+----+
        <BLANKLINE>
        """
        sink = self._sink(query)
        if self._spark is None:
            raise ValueError("the run never had a Spark session, so there is none to read with: use to_arrow")
        if self._finalizer.detach() is not None:  # DataFrames read lazily: files live as long as the session
            self._finalizer = weakref.finalize(self._spark, shutil.rmtree, self._scratch, ignore_errors=True)
        return read_dataframe(self._spark, sink)

    def to_arrow(self, query: str) -> pa.Table:
        """Returns the results of a query as a pyarrow Table in this process, without Spark. Times are in UTC.

        >>> result.to_arrow("hot").column_names
        ['room', 'mean', '_from', '_to']
        """
        return read_arrow(self._sink(query))

    def to_pandas(self, query: str) -> pd.DataFrame:
        """Returns the results of a query as a pandas DataFrame in this process, without Spark.

        >>> sorted(result.to_pandas("hot")["mean"])
        [19.0, 20.0, 22.0, 24.0]
        """
        return self.to_arrow(query).to_pandas()

    def to_polars(self, query: str) -> pl.DataFrame:
        """Returns the results of a query as a polars DataFrame in this process, without Spark.

        Raises:
            ImportError: polars is not installed. It is not a dependency of Kigen.
        """
        try:
            import polars
        except ImportError as error:
            raise ImportError("to_polars needs polars: run 'pip install polars', or use to_arrow") from error
        frame = polars.from_arrow(self.to_arrow(query))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def close(self) -> None:
        """Deletes temporary results now; they cannot be read afterwards. Results in a checkpoint stay.

        >>> result.close()
        """
        self._finalizer()

    def _sink(self, query: str) -> ParquetSink:
        """Returns the sink whose files hold the query's results: those that were kept, or its own INTO parquet."""
        found = next((q for q in self._app.queries if q.name == query), None)
        if found is None:
            raise KeyError(f"there is no query '{query}': use one of {', '.join(self.queries)}")
        if self._results is not None:
            return results_sink(found, self._results)
        into = into_sink(found, self._app.directory)
        if into is None:
            raise ArgumentError("the run kept no results: start it with keep_results=True")
        return into
