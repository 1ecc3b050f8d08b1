"""Draws what all pictures of benchmarks have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def unframe(axis: Any) -> None:
    """Removes the frame at the top and at the right."""
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def save(figure: Any, target: Path, dpi: int = 110) -> None:
    """Writes a figure as a PNG file and closes it."""
    from matplotlib import pyplot

    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=dpi)
    pyplot.close(figure)
