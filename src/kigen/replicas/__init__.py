"""Decides which replica leads, which one a reader follows and what may be acknowledged. Pure: no clock, no I/O."""
