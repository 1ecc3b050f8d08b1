"""Makes the data of the rooms example: a day of readings every 20 seconds and some door movements. The same every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

ROOMS = ["atrium", "archive", "kitchen", "lab 1", "lab 2", "office", "server room", "café"]
START = datetime(2026, 6, 1, tzinfo=UTC)


def stamp(seconds: float) -> str:
    return (START + timedelta(seconds=float(seconds))).isoformat(timespec="microseconds").replace("+00:00", "Z")


def readings(rng: np.random.Generator) -> list[tuple[float, str, float]]:
    rows = []
    for i, room in enumerate(ROOMS):
        times = np.arange(0, 86_400, 20) + rng.uniform(0, 2, 4_320)
        day = 22 + 2.2 * np.sin((times - 32_000) / 86_400 * 2 * np.pi) + (3 if room == "server room" else 0) + 0.3 * i
        noise = np.convolve(rng.normal(0, 0.6, len(times)), np.ones(40) / 10, mode="same")
        temp = day + noise + rng.normal(0, 0.2, len(times))
        broken = rng.uniform(0, 80_000)  # the sensor falls silent for a while
        spoke = (times < broken) | (times > broken + rng.uniform(400, 1_800))
        rows += [(float(t), room, round(float(v), 2)) for t, v in zip(times[spoke], temp[spoke], strict=True)]
    return sorted(rows)


def doors(rng: np.random.Generator) -> list[tuple[float, str, str]]:
    rows = []
    for room in ROOMS:
        times = np.sort(rng.uniform(20_000, 80_000, 24))
        rows += [(float(t), room, "open" if i % 2 == 0 else "closed") for i, t in enumerate(times)]
    return sorted(rows)


def main() -> None:
    rng = np.random.default_rng(20_260_601)
    target = Path(__file__).parent / "data"
    target.mkdir(exist_ok=True)
    for name, column, rows in (("readings", "temp", readings(rng)), ("doors", "state", doors(rng))):
        lines = [f"{room},{value},{stamp(t)}" for t, room, value in rows]
        (target / f"{name}.csv").write_text("\n".join([f"room,{column},ts", *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
