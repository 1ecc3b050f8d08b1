"""Describes the connector jsonl: JSON lines."""

from __future__ import annotations

from kigen.connectors.follow.options import FILE, FOLLOWED, MODES
from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec(
    "jsonl",
    FILE,
    "path",
    source="kigen.connectors.jsonl.opening:open_source",
    sink="kigen.connectors.jsonl.opening:open_sink",
    suffixes=(".jsonl", ".ndjson", ".json"),
    aliases=("json",),
    is_table=True,
    modes=MODES,
    source_options=FOLLOWED,
)
