"""Binds functions OVER (...) and QUALIFY."""
