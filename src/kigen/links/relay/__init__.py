"""Moves a stream from another node's queue into this node's queue."""
