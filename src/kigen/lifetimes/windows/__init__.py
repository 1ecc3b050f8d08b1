"""Windows: a stream tuple becomes a tuple with a lifetime."""
