"""Describes the connector csv."""

from __future__ import annotations

from kigen.connectors.follow.options import FILE, FOLLOWED, MODES
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "csv",
    FILE,
    "path",
    source="kigen.connectors.csv.opening:open_source",
    sink="kigen.connectors.csv.opening:open_sink",
    suffixes=(".csv",),
    is_table=True,
    modes=MODES,
    source_options=FOLLOWED,
)
