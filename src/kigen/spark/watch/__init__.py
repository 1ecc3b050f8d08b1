"""Watches workers: memory, progress, and how they ended."""
