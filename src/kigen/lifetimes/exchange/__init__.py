"""Relations that travel between nodes: rows sent, rows received, and one order for all replicas."""
