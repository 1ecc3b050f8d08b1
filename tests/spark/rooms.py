"""Provides an app with two streams and four queries, its data, and its results as bags of lines."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOMS = """
CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE STREAM alarms (room STRING, level BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'alarms.csv');
CREATE QUERY hot DEADLINE 2 SECONDS AS
  SELECT room, AVG(temp) AS mean, COUNT(*) AS n FROM readings [RANGE 5 SECONDS] GROUP BY room;
CREATE QUERY meet AS
  SELECT r.room, r.temp, a.level FROM readings [RANGE 3 SECONDS] AS r, alarms [ROWS 20] AS a WHERE r.room = a.room;
CREATE QUERY calm AS SELECT room FROM readings [RANGE 4 SECONDS] EXCEPT SELECT room FROM alarms [RANGE 2 SECONDS];
CREATE QUERY arrivals AS ISTREAM(SELECT * FROM readings [ROWS 100] WHERE temp > 25);
"""


def write_rooms(directory: Path, rows: int, seed: int = 1) -> Path:
    """Writes the app and two streams of equal pace, in time order, with equal timestamps. Returns the app file."""
    rng = random.Random(seed)
    for name, value, count in (("readings", "temp", rows), ("alarms", "level", rows // 3)):
        at, lines = datetime(2026, 1, 1, tzinfo=UTC), [f"room,{value},ts"]
        for _ in range(count):
            at += timedelta(milliseconds=rng.choice((0, 50, 100, 150)) * (1 if name == "readings" else 3))
            number = f"{rng.gauss(22, 4):.2f}" if value == "temp" else str(rng.randint(1, 3))
            lines.append(f"r{rng.randint(0, 5)},{number},{at:%Y-%m-%dT%H:%M:%S.%f}Z")
        (directory / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    app = directory / "rooms.cql"
    app.write_text(ROOMS, encoding="utf-8")
    return app


def bags(output: Path) -> dict[str, list[str]]:
    """Returns the header of each file and its lines, sorted."""
    files = {path.name: path.read_text(encoding="utf-8").splitlines() for path in sorted(output.glob("*.csv"))}
    return {name: [lines[0], *sorted(lines[1:])] for name, lines in files.items()}
