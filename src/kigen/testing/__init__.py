"""Tests for users to run: of apps (`AppTest`, `lifetimes`), and of connectors (`kigen.testing.connector`)."""

from kigen.testing.apps import AppTest, Row, Time, lifetimes, result_rows

__all__ = ["AppTest", "Row", "Time", "lifetimes", "result_rows"]
