"""`kigen init`: writes a small project that runs: an app, its data, a test and a README."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kigen.engine.errors import ArgumentError

_APP = """\
-- Which rooms are too warm? Run it:  kigen run app.cql --drain --output out
CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP)
  TIMESTAMP BY ts
  FROM csv (path = 'data/readings.csv');

-- The mean of the last ten seconds, while it is above the limit. Another limit:  --set limit=21
CREATE QUERY hot DEADLINE 2 SECONDS AS
  SELECT room, AVG(temp) AS mean
  FROM readings [RANGE 10 SECONDS]
  GROUP BY room
  HAVING mean > $limit;

CREATE QUERY warmest AS
  SELECT room, MAX(temp) AS top
  FROM readings [RANGE 1 MINUTE]
  GROUP BY room
  ORDER BY top DESC
  LIMIT 2;
"""
_TEST = '''\
"""Tests the app in virtual time, without Spark:  python -m pytest"""

from pathlib import Path

from kigen.testing import AppTest

APP = Path(__file__).with_name("app.cql")


def test_a_room_is_hot_while_its_mean_is_above_the_limit() -> None:
    test = AppTest(APP, params={"limit": 22})
    test.push(
        "readings",
        [
            {"room": "kitchen", "temp": 25.0, "ts": "2026-01-01T00:00:00Z"},
            {"room": "kitchen", "temp": 15.0, "ts": "2026-01-01T00:00:04Z"},
            {"room": "office", "temp": 19.0, "ts": "2026-01-01T00:00:30Z"},
        ],
    )
    assert test.at("hot", "2026-01-01T00:00:01Z") == [{"room": "kitchen", "mean": 25.0}]
    assert test.at("hot", "2026-01-01T00:00:05Z") == []
'''
_README = """\
# A Kigen project

| file | what it is |
|---|---|
| `app.cql` | the streams and queries |
| `data/readings.csv` | the tuples of the stream |
| `test_app.py` | a test in virtual time, without Spark |

    kigen check app.cql --set limit=22                        # errors and warnings, without Spark
    kigen run app.cql --set limit=22 --drain --output out     # results in out/hot.csv and out/warmest.csv
    python -m pytest                                          # the test
"""


def init_project(directory: Path) -> list[Path]:
    """Writes the project and returns its files. Raises ArgumentError if one of them is there already."""
    contents = {
        "app.cql": _APP,
        "data/readings.csv": _readings(),
        "test_app.py": _TEST,
        "README.md": _README,
    }
    there = [name for name in contents if (directory / name).exists()]
    if there:
        raise ArgumentError(f"{directory / there[0]} is there already: choose an empty directory, as in kigen init DIR")
    for name, text in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [directory / name for name in contents]


def _readings() -> str:
    """Makes readings of three rooms: the kitchen warms up and cools down again."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = ["room,temp,ts"]
    for second in range(0, 120, 2):
        moment = (start + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
        warmth = 6 - abs(second - 60) / 10
        lines += [f"kitchen,{20 + warmth:.1f},{moment}", f"office,{19.5 + (second % 7) / 10:.1f},{moment}"]
        if second % 6 == 0:
            lines.append(f"hall,{17 + (second % 5) / 10:.1f},{moment}")
    return "\n".join(lines) + "\n"
