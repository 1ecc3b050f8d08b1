"""Policies over slices on a real Spark: the lines are those of a drain, and a small BUFFER costs large windows most."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from kigen.engine import Engine

WINDOWS = (1, 2, 20, 60)  # seconds; mqt's order is 1-2,3,4


def app_text(buffer: str = "", dear_us: int = 0, rate: int = 40, seconds: int = 4) -> str:
    streams = [
        f"CREATE STREAM {s} (k BIGINT, v BIGINT) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = {i}, "
        f"duration = '{seconds} s',"
        f" k = 'uniform(0, 20)', v = 'sequence') {buffer};"
        for i, s in enumerate("ab")
    ]
    cost = f"COST {dear_us} MICROSECONDS" if dear_us else ""
    tail = "WHERE a.k = b.k"
    queries = [
        f"CREATE QUERY q{i} {cost} AS SELECT a.v AS x, b.v AS y FROM a [RANGE {w} SECONDS], b [RANGE {w} SECONDS] "
        f"{tail};"
        for i, w in enumerate(WINDOWS[:3])
    ]
    widest = f"a [RANGE {WINDOWS[3]} SECONDS], b [RANGE {WINDOWS[3]} SECONDS]"
    queries.append(f"CREATE QUERY q3 {cost} AS ISTREAM(SELECT a.v AS x, b.v AS y FROM {widest} {tail});")
    return "\n".join([*streams, *queries])


def pairs(path: Path) -> Counter[tuple[int, int]]:
    """Returns the pairs without times: live streams begin with the run, so times differ between runs."""
    with path.open(encoding="utf-8") as file:
        return Counter((int(row["x"]), int(row["y"])) for row in csv.DictReader(file))


@pytest.mark.timeout(300)
def test_slices_give_what_a_drain_gives(engine: Engine, tmp_path: Path) -> None:
    """With 20 ms per tuple and 80 tuples per second, slices fall behind one another, and nothing is lost."""
    app = tmp_path / "app.cql"
    app.write_text(app_text(dear_us=5_000), encoding="utf-8")
    live = engine.run(app, drain=False, policy="mqt", output=str(tmp_path / "live"), keep_results=False)
    app.write_text(app_text(), encoding="utf-8")
    drained = engine.run(app, drain=True, output=str(tmp_path / "drained"), keep_results=False)
    assert live.finished
    assert live.report["policy"] == "mqt"
    for name, told in live.report["queries"].items():
        assert (told["in"], told["dropped"]) == (drained.report["queries"][name]["in"], 0)
        assert pairs(tmp_path / "live" / f"{name}.csv") == pairs(tmp_path / "drained" / f"{name}.csv"), name
    latency = [told["latency_ms"]["p50"] for told in live.report["queries"].values()]
    assert latency[0] < latency[3], f"mqt answers small windows first: {latency}"


@pytest.mark.timeout(300)
def test_small_windows_lose_less(engine: Engine, tmp_path: Path) -> None:
    """20 ms per tuple and 80 tuples per second, long enough for many batches even on a busy machine: several batches
    of work wait."""
    app = tmp_path / "app.cql"
    app.write_text(app_text("BUFFER 200", 5_000, seconds=20), encoding="utf-8")
    result = engine.run(app, drain=False, policy="mqt", output=str(tmp_path), keep_results=False)
    told = [result.report["queries"][f"q{i}"] for i in range(4)]
    dropped = [mine["dropped"] for mine in told]
    assert result.finished
    assert len({mine["in"] for mine in told}) == 1, "every tuple is accounted for, in each query"
    assert dropped == sorted(dropped)
    assert dropped[0] < dropped[3], dropped
    few, all_of_them = pairs(tmp_path / "q3.csv"), told[3]["out"]
    assert sum(few.values()) == all_of_them
