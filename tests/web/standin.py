"""A stand-in for a run: pushed streams that are real, and figures that are not."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from kigen.connectors.changes_log import ChangesLog
from kigen.engine.apps import read_app
from kigen.engine.changes.live import AppChange, LiveChanges
from kigen.engine.ingest import Ingest
from kigen.engine.options import RunOptions
from kigen.engine.progress import Progress, QueryProgress
from kigen.plan import bind
from kigen.plan.logical import App

APP = """CREATE STREAM posted (k STRING, v DOUBLE) BUFFER 1000 FROM http ();
CREATE STREAM cars (id BIGINT) FROM synthetic (rate = 1);
CREATE QUERY hot DEADLINE 2 SECONDS AS SELECT k, v FROM posted [NOW];
"""


class StandIn:
    """Has what `kigen.web.served.Served` asks for."""

    def __init__(self, folder: Path, app: str = APP) -> None:
        self.app = bind(app)
        self.ingest: Ingest | None = Ingest(self.app, folder / "ck", folder / "scratch", syncs=False, drain=False)
        self.flows = True
        self.followed: dict[str, ChangesLog] = {}
        self.options = RunOptions()
        self.changes = LiveChanges(self, read_app)
        self.pause = threading.Event()  # a change waits for it
        self.pause.set()
        self.asked = threading.Event()

    def change_to(self, declared: App, replay_us: int | None = None, plan: bool = False) -> AppChange:
        self.asked.set()
        assert self.pause.wait(120)
        queries = [{"query": q.name, "action": "keep"} for q in declared.queries]
        if not plan:
            self.app = declared
        return AppChange(not plan, queries, [], 0.25, "a table\n")

    def save(self, to: str | Path) -> dict[str, Any]:
        about = {"queries": ["hot"], "batch": 3, "outputs": {"hot output": {"bytes": 7}}, "paused_s": 0.5}
        return {**about, "reads_in_place": {"cars": {"connector": "csv", "path": "cars.csv"}}}

    @property
    def progress(self) -> Progress:
        return Progress(None, 3, {"hot": QueryProgress(7, 5, 2, 1.5, 2000.0, 0.0)}, True, "pack", None, False)

    def report_so_far(self) -> dict[str, Any]:
        latency = {"p50": 1.5, "p95": 20.0, "p99": None}
        counts = {"in": 7, "out": 5, "missed": 1, "shed": 0, "late": 2, "skipped": 0, "dropped": 0}
        query = {**counts, "deadline_ms": 2000.0, "latency_ms": latency, "sdmr": 0.1}
        return {"policy": "pack", "batches": 3, "queries": {"hot": query}}

    def rows(self) -> list[dict[str, Any]]:
        assert self.ingest is not None
        queue = self.ingest.queues["posted"].queue
        return queue.read(0).batch().to_pylist() if queue.status()["end"] else []
