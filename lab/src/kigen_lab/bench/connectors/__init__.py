"""`kigen bench connectors`."""
