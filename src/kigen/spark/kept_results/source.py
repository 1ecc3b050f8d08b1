"""Defines the Python data source `kigen`, through which Spark reads the results of queries, and registers it.

Spark unpickles this class in several processes. Some only ask for its name, so this module imports almost nothing.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

FORMAT_NAME = "kigen"


class ResultsSource(DataSource):
    """The data source `kigen`. Its options are `path`, `query` and `mode`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT_NAME

    def schema(self) -> StructType | str:
        from kigen.spark.kept_results.readers import schema_of

        return schema_of(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from kigen.spark.kept_results.readers import ResultsStreamReader, kept_by

        return ResultsStreamReader(kept_by(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from kigen.spark.kept_results.readers import ResultsReader, kept_by

        return ResultsReader(kept_by(self.options))


def register(spark: SparkSession) -> None:
    """Makes the format `kigen` known to a session, so that it can read results of runs.

    `kigen.Engine` does this for its session.

    >>> kigen.spark.register(spark)
    >>> hot = spark.readStream.format("kigen").option("path", "state").option("query", "hot").load()
    """
    from kigen.spark.session.start import quiet

    sessions = spark._jvm.SparkSession  # type: ignore[union-attr]
    active = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)  # Spark looks there whether the name is taken, not in `spark`
    try:
        with quiet():
            spark.dataSource.register(ResultsSource)
    finally:
        if active.isDefined():
            sessions.setActiveSession(active.get())
        else:
            sessions.clearActiveSession()
