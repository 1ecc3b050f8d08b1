"""Commands for apps on nodes: `kigen up`, `kigen node`, `kigen status` and `kigen explain --nodes`."""
