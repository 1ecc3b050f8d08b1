"""Defines the Python data source through which Spark finds the reader (kigen.spark.admission.reader).

Spark unpickles this class in several processes before the first batch. Most of them only ask for its name and schema,
so this module imports almost nothing.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

FORMAT_NAME = "kigen-run"
SCHEMA = "task string, bucket int, seq long, payload string"


class KigenSource(DataSource):
    """The data source of a run. Its option `spec` is the encoded RunSpec."""

    @classmethod
    def name(cls) -> str:
        return FORMAT_NAME

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        from kigen.spark.admission.reader import AdmissionReader
        from kigen.spark.spec import RunSpec

        return AdmissionReader(RunSpec.decode(self.options["spec"]))
