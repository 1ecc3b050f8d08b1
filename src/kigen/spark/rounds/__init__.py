"""Rounds inside an epoch: what is logged before it is done, and how workers, admission and sink exchange it."""
