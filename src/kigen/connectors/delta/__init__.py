"""Writes results into Delta tables."""
