"""Analyses expressions of a bound plan: their columns, their conditions, and whether they may raise."""
