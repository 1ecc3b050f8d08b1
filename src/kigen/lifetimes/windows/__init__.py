"""Windows: they turn a stream tuple into a tuple with a lifetime."""
