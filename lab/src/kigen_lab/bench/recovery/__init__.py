"""`kigen bench recovery`."""
