"""Scalar expressions: by DuckDB over large blocks, by closures over small ones."""
