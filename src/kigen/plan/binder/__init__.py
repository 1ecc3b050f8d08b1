"""Resolves the names and types of an app file and builds the nodes of its plan."""

from kigen.plan.binder.app import bind, load_app

__all__ = ["bind", "load_app"]
