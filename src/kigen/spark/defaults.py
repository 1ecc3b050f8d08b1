"""Defaults that the command needs before it loads Spark. This module imports nothing."""

DEFAULT_MEMORY = "70%"  # of the machine's memory, for all workers of a run
