"""Recorded files that come live: `pace = n` of csv, JSON lines and parquet."""
