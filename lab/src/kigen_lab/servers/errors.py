"""Defines the error of a server that cannot be started."""

from __future__ import annotations


class ServerMissing(RuntimeError):
    """A server cannot be started here. The message says why."""
