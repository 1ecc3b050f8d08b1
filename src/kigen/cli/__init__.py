"""The command `kigen`."""
