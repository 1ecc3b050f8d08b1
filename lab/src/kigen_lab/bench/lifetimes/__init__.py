"""`kigen bench lifetimes`."""
