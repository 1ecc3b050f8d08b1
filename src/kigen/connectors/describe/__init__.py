"""Proposes the CREATE STREAM for data that exists: `DESCRIBE connector (...)`, `kigen describe`."""

from kigen.connectors.describe.proposal import describe

__all__ = ["describe"]
