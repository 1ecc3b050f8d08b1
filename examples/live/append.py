"""Appends vehicles to data/vehicles.jsonl, some fifty a second, until it is stopped; now and then it rotates it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from vehicles import vehicles

FILE = Path(__file__).parent / "data" / "vehicles.jsonl"
ROTATE_EVERY = 1000  # rows


def append(seconds: float) -> None:
    """Writes for so many seconds."""
    FILE.parent.mkdir(exist_ok=True)
    for number, row in enumerate(vehicles(seconds), 1):
        with open(FILE, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if number % ROTATE_EVERY == 0:
            os.replace(FILE, f"{FILE}.{number // ROTATE_EVERY}")


if __name__ == "__main__":
    append(float(sys.argv[1]) if len(sys.argv) > 1 else 1e9)
