"""Describes the connector console."""

from __future__ import annotations

from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec("console", sink="kigen.connectors.console.sink:ConsoleSink", modes=("append", "changes"))
