"""Describes the connector parquet."""

from __future__ import annotations

from kigen.connectors.follow.options import FILE, FOLLOWED, MODES
from kigen.plan.connectors.option_kinds import COLUMNS, DURATION, SIZE
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "parquet",
    FILE,
    "path",
    source="kigen.connectors.parquet.opening:open_source",
    sink="kigen.connectors.parquet.opening:open_sink",
    suffixes=(".parquet",),
    writes_folder=True,
    is_table=True,
    modes=MODES,
    sink_options={"partition_by": COLUMNS, "roll_size": SIZE, "roll_every": DURATION},
    source_options=FOLLOWED,
)
