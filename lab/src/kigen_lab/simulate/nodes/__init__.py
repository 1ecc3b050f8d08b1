"""Nodes and links in virtual time."""
