"""Joins: two relations, and joins that several queries share."""
