"""Writes results into tables of PostgreSQL."""
