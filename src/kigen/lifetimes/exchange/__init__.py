"""Relations that travel between nodes: rows sent, rows received, one order for replicas."""
