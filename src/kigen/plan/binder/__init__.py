"""Names and types of an app file resolved; the plan's nodes built."""

from kigen.plan.binder.app import bind, load_app

__all__ = ["bind", "load_app"]
