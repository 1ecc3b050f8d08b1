"""Rewrites bound plans: the same rows at every instant, with less work."""

from kigen.plan.rewrite.rules import RULES, rewrite

__all__ = ["RULES", "rewrite"]
