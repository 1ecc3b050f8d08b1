"""`kigen bench nodes`."""
