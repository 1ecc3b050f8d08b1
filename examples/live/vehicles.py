"""Vehicles that report their speed, some fifty a second."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

LANES = ("left", "middle", "right")


def vehicles(seconds: float) -> Iterator[dict[str, Any]]:
    """Yields rows for so many seconds, each at its time."""
    chance, until = random.Random(7), time.monotonic() + seconds
    while time.monotonic() < until:
        lane = chance.choice(LANES)
        yield {
            "id": chance.randrange(500),
            "lane": lane,
            "speed": round(chance.gauss(90 + 15 * LANES.index(lane), 15), 1),
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        time.sleep(0.02)
