"""`kigen bench latency`."""
