"""The JSON lines connector: source."""
