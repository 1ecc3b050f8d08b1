"""Builds the window sets of the shared-join paper.

The figure that shows them is lost; their orders under MQT are in the text. P1: gaps between windows grow. P2: they
shrink. P3 to P8: the same with one gap M that is larger than all others, after half, a fifth or four fifths of the
queries; odd ones grow, even ones shrink. All end at 3000. Growing ones begin with a gap of 1, shrinking ones with a gap
of 500.
"""

from __future__ import annotations

import numpy as np

LARGEST = 3000
_GAPS = {
    "p1": (1, 67, 134, 200, 267, 333, 400, 467, 533, 598),
    "p2": (500, 460, 420, 380, 340, 300, 240, 180, 120, 60),
    "p3": (1, 20, 40, 60, 80, 2300, 100, 120, 135, 144),
    "p4": (500, 220, 120, 70, 50, 1840, 80, 60, 40, 20),
    "p5": (1, 50, 1700, 60, 100, 140, 180, 220, 260, 289),
    "p6": (500, 200, 1200, 300, 250, 200, 150, 100, 60, 40),
    "p7": (1, 40, 80, 120, 160, 200, 240, 280, 1500, 379),
    "p8": (500, 250, 150, 100, 80, 70, 60, 50, 1690, 50),
}
PAPER_ORDERS = {
    "p1": "1,2,3,4,5,6,7,8,9,10",
    "p2": "1-10",
    "p3": "1,2,3,4,5,6-10",
    "p4": "1-5,6-10",
    "p5": "1,2,3-10",
    "p6": "1-10",
    "p7": "1,2,3,4,5,6,7,8,9-10",
    "p8": "1-8,9-10",
}
WINDOW_SETS = ("random", *_GAPS)


def random_windows(seed: int, queries: int = 10, largest: int = LARGEST) -> tuple[float, ...]:
    """Draws distinct windows between 1 and `largest`, which is one of them."""
    drawn = np.random.default_rng(seed).choice(largest - 1, queries - 1, replace=False) + 1
    return (*(float(w) for w in sorted(drawn)), float(largest))


def paper_windows(name: str, seed: int = 0) -> tuple[float, ...]:
    """Returns the set `random` (drawn from the seed) or `p1` to `p8`."""
    if name == "random":
        return random_windows(seed)
    return tuple(float(w) for w in np.cumsum(_GAPS[name]))
