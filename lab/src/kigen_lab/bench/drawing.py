"""What all pictures of benchmarks have in common: axes without a frame above and to the right, and how they are
written."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def unframe(axis: Any) -> None:
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def save(figure: Any, target: Path, dpi: int = 110) -> None:
    from matplotlib import pyplot

    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=dpi)
    pyplot.close(figure)
