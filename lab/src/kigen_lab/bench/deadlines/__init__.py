"""`kigen bench deadlines`."""
