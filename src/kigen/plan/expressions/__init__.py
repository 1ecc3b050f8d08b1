"""Reads expressions of a bound plan: columns, conditions, what may raise."""
