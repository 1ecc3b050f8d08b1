"""`kigen bench admission`."""
