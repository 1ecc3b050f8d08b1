"""Decides, in the reader's process, what the next micro-batch contains."""
