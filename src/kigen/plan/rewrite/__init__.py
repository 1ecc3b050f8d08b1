"""Rewrites of bound plans: same rows at every instant, less work."""

from kigen.plan.rewrite.rules import RULES, rewrite

__all__ = ["RULES", "rewrite"]
