"""Solves placement problems: the paper's model, the fixed-split model, a heuristic, and the SQPR baseline."""
