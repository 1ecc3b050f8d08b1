"""`kigen bench floor`."""
