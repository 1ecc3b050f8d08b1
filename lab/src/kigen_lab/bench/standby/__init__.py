"""`kigen bench standby`."""
