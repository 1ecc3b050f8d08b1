"""Solves a placement problem: exact model, fixed-split model, heuristic, baseline."""
