"""The logical plan: typed, immutable nodes; `bind` and `load_app` make it from an app file."""

from kigen.plan.binder import bind, load_app

__all__ = ["bind", "load_app"]
