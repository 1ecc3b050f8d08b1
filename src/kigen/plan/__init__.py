"""Turns an app file into a logical plan of typed, immutable nodes: `bind` and `load_app`."""

from kigen.plan.binder import bind, load_app

__all__ = ["bind", "load_app"]
