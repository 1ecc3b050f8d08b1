"""Streams that come from or go to other nodes, as source and sink."""
