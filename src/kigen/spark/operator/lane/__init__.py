"""Runs a lane: its rounds within an epoch, from epoch to epoch, and what Spark gets of it."""
