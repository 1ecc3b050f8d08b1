"""Figures of the paper on lazy standby."""
