"""The nodes file: nodes, links, where streams enter and where results are wanted."""
