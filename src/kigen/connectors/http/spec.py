"""Describes the connector http: senders post its tuples to the server of the run."""

from __future__ import annotations

from kigen.plan.connectors.spec import ConnectorSpec

SPEC = ConnectorSpec("http", is_pushed=True)
