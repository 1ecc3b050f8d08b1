"""Binds GROUP BY, grouping sets and aggregates."""
