"""The synthetic connector: a seeded generator with random access."""
