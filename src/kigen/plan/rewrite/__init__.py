"""Rewrites bound plans: the same rows at every instant, with less work."""

from kigen.plan.rewrite.rules import RULES, rewrite
from kigen.plan.rewrite.set_apart import set_apart

__all__ = ["RULES", "rewrite", "set_apart"]
