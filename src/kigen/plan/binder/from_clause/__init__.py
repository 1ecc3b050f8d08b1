"""Binds FROM: its inputs, the join tree, the order of joins."""
