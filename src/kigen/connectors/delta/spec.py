"""Describes the connector delta."""

from __future__ import annotations

from kigen.connectors.follow.options import FILE, MODES
from kigen.plan.connectors.option_kinds import COLUMNS, whole
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "delta",
    FILE,
    "path",
    sink="kigen.connectors.delta.sink:DeltaSink",
    writes_folder=True,
    modes=MODES,
    sink_options={"partition_by": COLUMNS, "compact_every": whole(1, "100")},
    extra="delta",
)
