"""Placement problems for experiments: the paper's example, and random ones."""
