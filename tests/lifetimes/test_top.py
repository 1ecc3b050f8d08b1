"""Tests the first rows of an order against a slow reference, with fronts so small that bounds are chosen again and
again."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from oracle.drive import judged_sql

from kigen.lifetimes import StreamInput, TaskRuntime
from kigen.lifetimes.sets import top
from kigen.lifetimes.sweeps.kth_alive import kth_alive
from kigen.plan.binder import bind
from kigen.plan.tasks import extract_tasks

STREAM = "CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"


@pytest.fixture
def small_fronts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LEAST_FRONT", "_PER_ROOT", "_TOO_LARGE"):
        monkeypatch.setattr(top, name, 1)


@pytest.mark.usefixtures("small_fronts")
@pytest.mark.parametrize("seed", range(200, 215))
def test_random_apps_with_small_fronts(seed: int) -> None:
    report = judged_sql(seed)
    assert not report, report


@pytest.mark.usefixtures("small_fronts")
@pytest.mark.parametrize("mode", ["dt", "nt"])
@pytest.mark.parametrize("shape", ["random", "rising", "falling", "few"])
def test_long_windows(mode: str, shape: str) -> None:
    rng = Random(shape)
    count, window, limit = 400, 120, 3
    values = {
        "random": [rng.randint(0, 1000) for _ in range(count)],
        "rising": list(range(count)),
        "falling": list(range(count, 0, -1)),
        "few": [rng.randint(0, 2) for _ in range(count)],
    }[shape]
    app = bind(f"{STREAM}CREATE QUERY q AS SELECT v FROM s [ROWS {window}] ORDER BY v LIMIT {limit} OFFSET 1;")
    (task,) = extract_tasks(app)
    runtime = TaskRuntime(task, app, mode)
    lines: list[tuple[int, int, int | None]] = []
    start = 0
    while start < count:
        stop = min(count, start + rng.choice((1, 5, 60)))
        times = np.arange(start, stop) * 10
        table = pa.table({"c0": values[start:stop], "c1": pa.array(times).cast(pa.timestamp("us")), "_ts": times})
        for found in runtime.step({"s": StreamInput([table], ended=stop == count)}).outputs.values():
            lines += zip(*(found.column(name).to_pylist() for name in ("c0", "_from", "_to")), strict=True)
        start = stop
        if rng.random() < 0.1:
            saved = runtime.snapshot()
            runtime = TaskRuntime(task, app, mode)
            runtime.restore(saved)
    for i in range(count):
        wanted = sorted(values[max(0, i + 1 - window) : i + 1])[1 : 1 + limit]
        assert sorted(v for v, born, dies in lines if born <= i * 10 and (dies is None or i * 10 < dies)) == wanted


def test_kth_alive_against_a_loop() -> None:
    rng = Random(5)
    for _ in range(50):
        events: list[tuple[int, int]] = []
        alive: list[int] = []
        for _ in range(rng.randint(1, 60)):
            if alive and rng.random() < 0.4:
                gone = alive.pop(rng.randrange(len(alive)))
                events.append((gone, -1))
            else:
                alive.append(rng.randint(0, 20))
                events.append((alive[-1], 1))
        asked = [(rng.randint(0, len(events)), rng.randint(0, 8)) for _ in range(30)]
        (rank, weight), (after, k) = (np.array(pairs, dtype=np.int64).T for pairs in (events, asked))
        got = kth_alive(rank, weight, after, k)
        for (upto, place), found in zip(asked, got.tolist(), strict=True):
            live: list[int] = []
            for value, sign in events[:upto]:
                live.append(value) if sign > 0 else live.remove(value)
            assert found == (sorted(live)[place] if place < len(live) else -1)
