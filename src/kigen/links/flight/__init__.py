"""Serves queues over Arrow Flight and reads them."""
