"""The console connector: a sink that prints."""
