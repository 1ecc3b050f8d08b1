"""Binds FROM: its inputs, the join tree and the order of joins."""
