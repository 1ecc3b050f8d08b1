"""`kigen bench links`."""
