"""Thousands of random apps without Spark. `KIGEN_SEEDS="a:b"` chooses the seeds (default 0:5000), KIGEN_WORKERS the
processes.

Runs only under `make soak` (KIGEN_SOAK=1) or when KIGEN_SEEDS is set.
"""

from __future__ import annotations

import os
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest
from oracle.drive import judged, judged_joins, judged_newer, judged_sql

ASKED = "KIGEN_SOAK" in os.environ or "KIGEN_SEEDS" in os.environ


KINDS = {"apps": judged, "sql": judged_sql, "joins": judged_joins, "newer": judged_newer}


def attempt(kind: str, seed: int) -> str:
    try:
        return KINDS[kind](seed)
    except Exception:
        return f"seed {seed}\n{traceback.format_exc()}"


@pytest.mark.skipif(not ASKED, reason="a long run: KIGEN_SOAK=1 or KIGEN_SEEDS=a:b")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_random_apps(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, last = (int(part) for part in os.environ.get("KIGEN_SEEDS", "0:5000").split(":"))
    failed: list[int] = []
    began = time.monotonic()
    workers = int(os.environ.get("KIGEN_WORKERS", str(os.cpu_count() or 1)))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for seed, report in enumerate(pool.map(partial(attempt, kind), range(first, last), chunksize=10), first):
            with capfd.disabled():  # a run of an hour shows what it finds when it finds it
                if report:
                    failed.append(seed)
                    print(f"\n===== seed {seed}\n{report}", flush=True)
                elif (seed - first + 1) % 500 == 0:
                    rate = (seed - first + 1) / (time.monotonic() - began)
                    print(f"\n{seed - first + 1} apps, {len(failed)} failed, {rate:.1f} a second", flush=True)
    assert not failed
