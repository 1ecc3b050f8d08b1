"""Binds expressions: names to positions, types by DuckDB, functions by an allow list."""
