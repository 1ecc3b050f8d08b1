"""`kigen bench placement`."""
