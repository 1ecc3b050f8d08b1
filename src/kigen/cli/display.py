"""What a run shows: a bar for finite sources, rates for live ones, plain lines when nobody watches; and the table at the end.

Progress goes to standard error, the closing table to standard output.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kigen.engine import Progress as RunProgress

_PLAIN_EVERY_S = 5.0


class RunDisplay:
    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: Any = None
        self._began = self._told = time.monotonic()
        self._last = (self._began, 0)

    def __enter__(self) -> RunDisplay:
        if self._console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def starting(self) -> None:
        if self._bar is not None:
            self._task = self._bar.add_task("starting Spark", total=None, note="")

    def show(self, progress: RunProgress) -> None:
        now = time.monotonic()
        tuples = max((arrived for arrived, _ in progress.queries.values()), default=0)
        if self._bar is not None:
            total = None if progress.fraction is None else 1.0
            rate = self._rate(now, tuples)
            note = f"{tuples:,} tuples, {rate:,.0f}/s, {progress.batches} batches"
            self._bar.update(self._task, description="running", total=total, completed=progress.fraction or 0.0, note=note)
        elif now - self._told >= _PLAIN_EVERY_S:
            self._told = now
            share = "" if progress.fraction is None else f"{progress.fraction:.0%}, "
            rate = tuples / (now - self._began)
            sys.stderr.write(f"{share}{tuples} tuples, {rate:.0f} a second, {progress.batches} batches\n")

    def _rate(self, now: float, tuples: int) -> float:
        """Since about a second ago."""
        at, before = self._last
        if now - at > 1.0:
            self._last = now, tuples
        return (tuples - before) / (now - at) if now > at else 0.0


def closing_table(report: dict[str, Any], skipped: dict[str, list[str]]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    queries = report["queries"]
    counts = ["in", "out", *(name for name in ("late", "skipped") if any(q[name] for q in queries.values())), "missed"]
    table = Table(title=f"{report['batches']} batches in {report['wall_s']:.1f} s; latencies in ms", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("query")
    for name in (*counts, "deadline", "p50", "p95", "p99"):
        table.add_column(name, justify="right")
    for name, query in queries.items():
        numbers = [*(query[count] for count in counts), query["deadline_ms"], *query["latency_ms"].values()]
        table.add_row(name, *(_shown(number) for number in numbers))
    console.print(table)
    for stream, rows in skipped.items():
        sys.stderr.write(f"skipped in stream '{stream}', the first of them:\n" + "".join(f"  {row}\n" for row in rows))


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"
