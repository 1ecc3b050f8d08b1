"""What the plan knows of connectors: their descriptions, and the registry that finds them by name."""
