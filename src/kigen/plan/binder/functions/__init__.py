"""Binds the functions that an app declares, and calls of functions with OVER."""
