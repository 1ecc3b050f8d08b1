"""Figures of the paper on placement and sub-deadlines."""
