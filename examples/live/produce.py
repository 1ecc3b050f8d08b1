"""Appends vehicles to data/vehicles.jsonl, some fifty a second, until it is stopped. Now and then it rotates the file."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

FILE = Path(__file__).parent / "data" / "vehicles.jsonl"
LANES = ("left", "middle", "right")
ROTATE_EVERY = 1000  # rows


def produce(seconds: float) -> int:
    """Writes for so many seconds; returns how many rows it wrote."""
    FILE.parent.mkdir(exist_ok=True)
    chance, rows, until = random.Random(7), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        lane = chance.choice(LANES)
        row = {
            "id": chance.randrange(500),
            "lane": lane,
            "speed": round(chance.gauss(90 + 15 * LANES.index(lane), 15), 1),
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        with open(FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows += 1
        if rows % ROTATE_EVERY == 0:
            os.replace(FILE, f"{FILE}.{rows // ROTATE_EVERY}")
        time.sleep(0.02)
    return rows


if __name__ == "__main__":
    produce(float(sys.argv[1]) if len(sys.argv) > 1 else 1e9)
