"""The csv connector: source and sink."""
