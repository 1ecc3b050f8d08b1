"""Loads matplotlib, which only pictures need."""

from __future__ import annotations

from typing import Any


class MatplotlibMissing(ImportError):
    """Matplotlib is not installed: exit code 2."""


def load_matplotlib() -> Any:
    """Returns matplotlib, set up to draw into files. Raises MatplotlibMissing."""
    try:
        import matplotlib
    except ImportError as error:
        raise MatplotlibMissing(
            "a picture needs matplotlib, which is not installed; run: pip install 'kigen[picture]'"
        ) from error
    matplotlib.use("Agg")
    return matplotlib
