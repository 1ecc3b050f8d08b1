"""`kigen run`: runs an app, shows its progress and stops it on a signal.

After Ctrl-C or SIGTERM the run ends in an orderly way: its table is shown and its report is written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kigen.cli.display import RunDisplay, closing_table
from kigen.cli.loading import load, warn
from kigen.cli.serving import kept_changes_s, say_where, web
from kigen.cli.spark_log import spark_log
from kigen.cli.stop_request import StopRequest, interruptible, take_signals
from kigen.connectors.options import duration_us
from kigen.engine import Engine, Run, RunOptions, defaults
from kigen.engine.changes.description import change_text
from kigen.engine.errors import ArgumentError
from kigen.engine.ingest import pushed_streams
from kigen.plan.logical import App
from kigen.plan.paths import conflicts

_SHOW_S = 0.5  # between two looks at the progress


@dataclass(frozen=True)
class RunArguments:
    """Arguments of `kigen run`, as the user wrote them."""

    app_file: Path
    drain: bool
    output: Path | None
    lifetime: str
    policy: str
    master: str | None
    checkpoint: Path | None
    report: Path | None
    duration: str | None
    memory: str = defaults.MEMORY
    durability: str = defaults.DURABILITY
    serve: str | None = None
    epoch: str = f"{defaults.EPOCH_S:g} s"
    lanes: int | None = None
    keep_results: str | None = None
    settings: tuple[str, ...] = ()  # values of parameters, as in --set
    no_change: bool = False
    replay_from: str | None = None
    allow: tuple[str, ...] = ()

    def options(self) -> RunOptions:
        if self.allow and self.serve is None:
            raise ArgumentError("--allow is for changes of the app over HTTP: add --serve")
        return RunOptions(
            drain=self.drain,
            output=self.output,
            checkpoint=self.checkpoint,
            lifetime=self.lifetime,
            policy=self.policy,
            duration_s=None if self.duration is None else duration_us("kigen run", "--duration", self.duration) / 1e6,
            memory=self.memory,
            durability=self.durability,
            epoch_s=0.0 if self.epoch.strip() == "0" else duration_us("kigen run", "--epoch", self.epoch) / 1e6,
            lanes=self.lanes,
            keep_results=False,
            keep_changes_s=self.keep_changes_s,
            no_change=self.no_change,
            replay_from=self.replay_from,
            allow=self.allow,
        )

    @property
    def keep_changes_s(self) -> float | None:
        return kept_changes_s(self.serve, self.keep_results)


def run_app(arguments: RunArguments) -> None:
    """Runs an app until its end or until the user stops it. Raises what `kigen.cli.exits` turns into an exit code."""
    app = load(arguments.app_file, arguments.output, arguments.settings)
    report = {} if arguments.report is None else {"--report": str(arguments.report)}
    for output, wrong in conflicts(
        app, None if arguments.output is None else str(arguments.output), str(arguments.app_file), report
    ):
        raise ArgumentError(f"{wrong}: name another file after {output.key}")
    require_server(app, arguments.serve)
    warn(app.warnings)
    for note in without_effect(app, arguments.drain):
        sys.stderr.write(f"note: {note}\n")
    engine = Engine(master=arguments.master)
    with spark_log(), interruptible() as stopped:
        run = engine.prepare(app, arguments.options())
        if run.last_change is not None:
            sys.stderr.write(told_change(run) + "\n")
        if run.continues_changed:
            sys.stderr.write(
                f"note: the app was changed while it ran, and goes on so; {arguments.app_file} is as it was then\n"
            )
        try:
            with serving(run, arguments.serve):
                if not run.finished:
                    run_to_end(engine, run, stopped)
        finally:
            result = run.stop()
            engine.close()
    if arguments.report is not None:
        arguments.report.parent.mkdir(parents=True, exist_ok=True)
        arguments.report.write_text(json.dumps(result.report, indent=2) + "\n", encoding="utf-8")
    closing_table(result.report, run.skipped)
    if not result.finished:
        sys.stderr.write(how_to_resume(arguments, app) + "\n")


def require_server(app: App, address: str | None) -> None:
    """Raises ArgumentError if a stream takes tuples over HTTP and nothing would serve it."""
    posted = [stream.name for stream in app.streams if stream.source.name == "http"]
    if posted and address is None:
        raise ArgumentError(f"stream {posted[0]} takes tuples over HTTP: add --serve, or --serve HOST:PORT")


@contextmanager
def serving(run: Run, address: str | None) -> Iterator[None]:
    """Serves the run over HTTP while the block runs, if the user wants it, and says where."""
    if address is None:
        yield
        return
    with web().serve(run, address) as server:
        say_where(server)
        yield


def without_effect(app: App, drain: bool) -> list[str]:
    """Describes the clauses that would drop tuples but do nothing in this run."""
    pushed = {stream.name for stream in pushed_streams(app)}
    waits = {s.name for s in app.streams if s.source.name.lower() == "synthetic" or s.name in pushed}
    bounded = [s.name for s in app.streams if s.buffer is not None]
    notes = [
        f"BUFFER of {name} has no effect: a file keeps its rows until they are read"
        for name in bounded
        if name not in waits
    ]
    if drain:
        names = [("BUFFER", name) for name in bounded if name in waits]
        names += [("SHED", s.name) for s in app.streams if s.shed is not None] + [
            ("FIRM", q.name) for q in app.queries if q.firm
        ]
        notes += [f"{word} of {name} has no effect with --drain: nothing is dropped" for word, name in names]
    return notes


def run_to_end(engine: Engine, run: Run, stopped: StopRequest) -> None:
    """Runs until the end, --duration or a stop request, and shows the progress."""
    with RunDisplay() as display:
        display.starting()
        run.notify = display.say
        spark = engine.spark
        take_signals(stopped)  # Spark has installed its own handler
        if stopped.is_set():
            return
        changed_before = run.last_change
        run.begin(spark)
        if run.last_change is not changed_before:  # a batch of the old app had to be finished first
            display.say(told_change(run))
        show_at, told = 0.0, run.last_change
        while run.active and not stopped.wait(run.look_every_s):
            if run.last_change is not told:  # by 'kigen add', 'drop' or 'change'
                told = run.last_change
                assert told is not None
                display.say(f"the app has changed:\n{change_text(told).rstrip()}")
            if time.monotonic() >= show_at:
                display.show(run.progress)
                show_at = time.monotonic() + _SHOW_S
        display.show(run.progress)


def told_change(run: Run) -> str:
    """Describes the change of the app that a run has made."""
    assert run.last_change is not None
    return f"the app has changed since the last run on this checkpoint:\n{change_text(run.last_change).rstrip()}"


def how_to_resume(arguments: RunArguments, app: App) -> str:
    if arguments.checkpoint is None:
        return "stopped before the end; with --checkpoint DIR, the same command would continue such a run"
    return f"stopped before the end; the same command continues from {arguments.checkpoint}"
