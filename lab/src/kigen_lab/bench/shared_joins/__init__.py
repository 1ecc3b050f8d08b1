"""`kigen bench shared-joins`."""
