"""Finds joins that differ only in their windows and plans them as one."""
