"""Joins: of two relations, shared by several queries, or run slice by slice."""
