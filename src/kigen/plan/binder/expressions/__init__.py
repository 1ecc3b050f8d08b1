"""Binds expressions: resolves names to positions, asks DuckDB for types, and allows functions from a list."""
