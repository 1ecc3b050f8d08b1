"""Figures of the paper on deadlines and adaptive batches."""
