"""Policies over slices on a real Spark: the lines are those of a drain, and a small BUFFER costs large windows most.

A run under `salvage` that is killed skips the same tuples when it is made again.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from round_kills import kill_later, start

from kigen.engine import Engine

WINDOWS = (1, 2, 20, 60)  # seconds; mqt's order is 1-2,3,4


def app_text(buffer: str = "", dear_us: int = 0, rate: int = 40, seconds: int = 4, begin: str = "") -> str:
    streams = [
        f"CREATE STREAM {s} (k BIGINT, v BIGINT) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = {i}, "
        f"duration = '{seconds} s',"
        f" k = 'uniform(0, 20)', v = 'sequence'{begin}) {buffer};"
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
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a killed run may leave half a line
    return Counter((int(row["x"]), int(row["y"])) for row in csv.DictReader(whole.splitlines()))


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


@pytest.mark.timeout(1200)
def test_a_killed_run_under_salvage_skips_the_same_tuples_again(engine: Engine, tmp_path: Path) -> None:
    """A worker and then the command are killed. Each query has every pair of the tuples that are present for it, once.

    A tuple is present for a query if it is in a line of it. A replay that skipped other tuples would lose some of their
    pairs, or give some twice. All pairs there are come from a drain that begins at the same instant. Where a run ends
    before both are killed, a longer one is tried.
    """
    assert any(check_salvage(engine, tmp_path / str(seconds), seconds) for seconds in (20, 80)), "none was killed"


def check_salvage(engine: Engine, folder: Path, seconds: int) -> bool:
    folder.mkdir()
    app, output, checkpoint = folder / "app.cql", folder / "live", folder / "ck"
    app.write_text(app_text("BUFFER 60", 5_000, seconds=seconds), encoding="utf-8")
    options, rng = ("--policy", "salvage", "--epoch", "5 s"), random.Random(17)
    process = start(app, output, checkpoint, *options)
    killed = [kill_later(process, checkpoint, rng, kind) for kind in ("worker", "command")]
    process.communicate(timeout=240)
    before = {name: pairs(output / f"{name}.csv") for name in ("q0", "q3") if (output / f"{name}.csv").exists()}
    process = start(app, output, checkpoint, *options)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors

    started_us = json.loads((checkpoint / "rounds" / "first.json").read_bytes())["started_us"]
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=started_us)
    app.write_text(app_text(seconds=seconds, begin=f", start = '{at.isoformat()}'"), encoding="utf-8")
    engine.run(app, drain=True, output=str(folder / "drained"), keep_results=False)
    for name in (f"q{i}" for i in range(4)):
        found, every = pairs(output / f"{name}.csv"), pairs(folder / "drained" / f"{name}.csv")
        left, right = {x for x, _ in found}, {y for _, y in found}
        assert found == Counter({p: n for p, n in every.items() if p[0] in left and p[1] in right}), name
        assert not before.get(name, Counter()) - found, f"{name}: what was visible before the kill is there after it"
    assert sum(found.values()) < sum(every.values()) / 2, "the widest window lost tuples"
    return all(killed)
