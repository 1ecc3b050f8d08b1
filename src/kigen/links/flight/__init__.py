"""Queues served and read over Arrow Flight."""
