"""`kigen bench joins`."""
