"""Kigen on Spark.

Imports are most of the start time of a process, so each imports only the modules it needs. Only `register` is for
users; it is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kigen.spark.kept_results.source import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:
    if name != "register":
        raise AttributeError(f"module 'kigen.spark' has no attribute '{name}'")
    return import_module("kigen.spark.kept_results.source").register
