"""`kigen bench idle`."""
