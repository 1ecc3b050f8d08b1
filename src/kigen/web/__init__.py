"""Serves a run over HTTP: tuples in, results, metrics and health out. Needs kigen[web]."""

from kigen.web.server import DEFAULT_ADDRESS, WebServer, serve

__all__ = ["DEFAULT_ADDRESS", "WebServer", "serve"]
