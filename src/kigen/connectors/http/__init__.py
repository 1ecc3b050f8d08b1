"""Tuples that senders post to the server of a run: see `kigen.connectors.pushed` and `kigen.web`."""
