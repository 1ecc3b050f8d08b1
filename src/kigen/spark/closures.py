"""Pickles functions of a user's program by value, so that workers need not have the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle


def by_value(code: Callable[..., Any]) -> bytes:
    """Returns a function as bytes that `pickle.loads` understands wherever PySpark is installed."""
    made: bytes = cloudpickle.dumps(code)  # type: ignore[no-untyped-call]
    return made
