"""Figures of the shared-join paper."""
