"""Binds sub-queries in expressions: EXISTS, IN and scalar sub-queries."""
