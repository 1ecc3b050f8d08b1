"""Describes the connector spark: any source or writer that Spark has. The engine feeds and opens it."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import TEXT, text
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "spark",
    {"format": text("the name of a source of Spark in 'single quotes'", "'rate-micro-batch'")},
    "format",
    sink="kigen.spark.dataframes.writer_sink:SparkWriterSink",
    is_pushed=True,
    is_table=True,
    can_shed=False,
    takes_any_option=True,
    modes=("append", "changes"),
    sink_options={"table": TEXT},
)
