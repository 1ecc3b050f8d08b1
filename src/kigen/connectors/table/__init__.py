"""Reads CREATE TABLE: rows that are alive at all times."""
