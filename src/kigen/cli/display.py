"""Shows the progress of a run, and the table at its end.

On a terminal, finite sources show a bar and live ones a table that is refreshed in place. Elsewhere there is a line
every few seconds. Progress goes to standard error, the table at the end to standard output.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kigen.engine import Progress as RunProgress
from kigen.spark.watch.memory import size_text

_PLAIN_EVERY_S = 5.0
_RATE_OVER_S = 3.0


class RunDisplay:
    """Display of one run, from the start of Spark to its end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._live: Live | None = None
        self._task: Any = None
        self._began = self._printed_at = time.monotonic()
        self._seen: deque[tuple[float, dict[str, int]]] = deque()  # time, and tuples per query

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
        if self._live is not None:
            self._live.stop()

    def starting(self) -> None:
        if self._bar is not None:
            self._task = self._bar.add_task("starting Spark", total=None, note="")

    def say(self, text: str) -> None:
        """Prints a line that stays, above what is refreshed."""
        if self._bar is None and self._live is None:
            sys.stderr.write(text + "\n")
        else:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, progress: RunProgress) -> None:
        now = time.monotonic()
        rates = self._rates(now, progress)
        if progress.live and self._console.is_terminal:
            self._table(progress, rates, now)
        elif self._bar is not None:
            total = None if progress.fraction is None else 1.0
            note = (
                f"{_passed(progress):,} tuples, {max(rates.values(), default=0.0):,.0f}/s, {progress.batches} "
                f"batches{_at_work(progress)}"
            )
            self._bar.update(
                self._task, description="running", total=total, completed=progress.fraction or 0.0, note=note
            )
        elif now - self._printed_at >= _PLAIN_EVERY_S:
            self._printed_at = now
            for line in plain_lines(progress, rates):
                sys.stderr.write(line + "\n")

    def _table(self, progress: RunProgress, rates: dict[str, float], now: float) -> None:
        if self._live is None:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            self._live = Live(console=self._console, transient=True, refresh_per_second=4)
            self._live.start()
        self._live.update(live_table(progress, rates, now - self._began))

    def _rates(self, now: float, progress: RunProgress) -> dict[str, float]:
        """Returns the tuples per second of each query, over the last seconds. A query may have been added since, or
        dropped and added."""
        seen = {
            name: query.arrived + (0 if progress.live else progress.read) for name, query in progress.queries.items()
        }
        self._seen.append((now, seen))
        while now - self._seen[0][0] > _RATE_OVER_S and len(self._seen) > 2:
            self._seen.popleft()
        since, before = self._seen[0]
        new = {name: max(0, count - before.get(name, 0)) for name, count in seen.items()}
        return {name: count / (now - since) if now > since else 0.0 for name, count in new.items()}


def live_table(progress: RunProgress, rates: dict[str, float], elapsed_s: float) -> Table:
    """Returns a row per query. What is late, or misses more than 5 % of its deadlines, is red."""
    k = "" if progress.k is None else f", k = {progress.k}"
    overload = ", overloaded" if progress.overloaded else ""
    share = "" if progress.fraction is None else f", {progress.fraction:.0%} of the input"
    memory = f", {size_text(progress.memory)}" if progress.memory else ""
    title = f"{elapsed_s:,.0f} s, {progress.batches:,} batches, policy {progress.policy}{k}{overload}{share}{memory}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("query")
    for name in ("tuples/s", "waiting", "p95 ms", "deadline ms", "SDMR %", "lines"):
        table.add_column(name, justify="right")
    for name, query in progress.queries.items():
        missed = query.deadline_ms is not None and query.p95_ms is not None and query.p95_ms > query.deadline_ms
        p95 = Text(_shown(query.p95_ms), style="red" if missed else "")
        sdmr = Text(
            "-" if query.deadline_ms is None and not query.sdmr else f"{100 * query.sdmr:.2f}",
            style="red" if query.sdmr > 0.05 else "",
        )
        table.add_row(
            name, f"{rates[name]:,.0f}", _shown(query.waiting), p95, _shown(query.deadline_ms), sdmr, f"{query.out:,}"
        )
    return table


def _passed(progress: RunProgress) -> int:
    """Returns how many tuples the kernel has processed, committed or not."""
    return max((query.arrived for query in progress.queries.values()), default=0) + progress.read


def _at_work(progress: RunProgress) -> str:
    """Describes what the running batch is doing, and the event time it has reached."""
    if progress.doing is None:
        return ""
    memory = f", {size_text(progress.memory)}" if progress.memory else ""
    return f"; {progress.doing}{_at(progress.reached_us)}{memory}"


def _at(time_us: int | None) -> str:
    if time_us is None:
        return ""
    try:
        return f" at {datetime.fromtimestamp(time_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError):  # a year that datetime cannot hold
        return f" at {time_us} us"


def plain_lines(progress: RunProgress, rates: dict[str, float]) -> list[str]:
    """Returns one line, and one more per query for live streams."""
    share = "" if progress.fraction is None else f"{progress.fraction:.0%}, "
    k = "" if progress.k is None else f", k {progress.k}"
    speed = f"{max(rates.values(), default=0.0):.0f} per second"
    lines = [f"{share}{_passed(progress)} tuples, {speed}, {progress.batches} batches{k}{_at_work(progress)}"]
    if progress.live:
        for name, query in progress.queries.items():
            waiting = "" if query.waiting is None else f", {query.waiting} waiting"
            p95 = "" if query.p95_ms is None else f", p95 {query.p95_ms:.0f} ms"
            sdmr = "" if query.deadline_ms is None else f", SDMR {100 * query.sdmr:.2f} %"
            lines.append(f"  {name}: {rates[name]:.0f}/s{waiting}{p95}{sdmr}")
    return lines


def closing_table(report: dict[str, Any], skipped: dict[str, list[str]]) -> None:
    """Prints counts and latencies per query, and the first rows that were skipped per stream."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    queries = report["queries"]
    seldom = ("late", "skipped", "shed", "dropped")
    counts = ["in", "out", *(name for name in seldom if any(q[name] for q in queries.values())), "missed"]
    table = Table(
        title=f"{report['batches']} batches in {report['wall_s']:.1f} s; latencies in ms",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("query")
    quantiles = dict.fromkeys(name for query in queries.values() for name in query["latency_ms"])
    for name in (*counts, "SDMR %", "deadline", *quantiles):
        table.add_column(name, justify="right")
    for name, query in queries.items():
        sdmr = "-" if query["deadline_ms"] is None else f"{100 * query['sdmr']:.2f}"
        numbers = [query["deadline_ms"], *(query["latency_ms"].get(name) for name in quantiles)]
        table.add_row(name, *(_shown(query[count]) for count in counts), sdmr, *(_shown(number) for number in numbers))
    console.print(table)
    for name, query in queries.items():
        if query["missed"]:
            parts = ", ".join(f"{time_ms:,.0f} ms {part}" for part, time_ms in query["missed_ms"].items())
            console.print(f"{name}: a tuple that missed its deadline spent {parts}", highlight=False)
    for stream, rows in skipped.items():
        sys.stderr.write(
            f"first rows that were skipped in stream '{stream}':\n" + "".join(f"  {row}\n" for row in rows)
        )


def _shown(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"
