"""`kigen run`: the engine, with a display and signals. Ctrl-C and SIGTERM end a run in good order, with its table and
report."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kigen.cli.asked_to_stop import AskedToStop
from kigen.cli.display import RunDisplay, closing_table
from kigen.cli.loading import load, warn
from kigen.connectors.options import duration_us
from kigen.engine import Engine, Run, RunFailed, RunOptions, defaults
from kigen.engine.errors import ArgumentError
from kigen.plan.logical import App
from kigen.plan.paths import conflicts
from kigen.spark.session.start import SparkUnavailable, log_path

_POLL_S = 0.05


@dataclass(frozen=True)
class RunArguments:
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

    def options(self) -> RunOptions:
        return RunOptions(
            drain=self.drain,
            output=self.output,
            checkpoint=self.checkpoint,
            lifetime=self.lifetime,
            policy=self.policy,
            duration_s=None if self.duration is None else duration_us("kigen run", "--duration", self.duration) / 1e6,
            memory=self.memory,
            durability=self.durability,
            keep_results=False,
        )


def run_app(arguments: RunArguments) -> None:
    app = load(arguments.app_file, arguments.output)
    report = {} if arguments.report is None else {"--report": str(arguments.report)}
    for output, wrong in conflicts(
        app, None if arguments.output is None else str(arguments.output), str(arguments.app_file), report
    ):
        raise ArgumentError(f"{wrong}: name another file after {output.key}")
    warn(app)
    for note in without_effect(app, arguments.drain):
        sys.stderr.write(f"note: {note}\n")
    engine = Engine(master=arguments.master)
    with spark_log(), interruptible() as stopped:
        run = engine.prepare(app, arguments.options())
        try:
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


def without_effect(app: App, drain: bool) -> list[str]:
    """Clauses that drop tuples, where none may be dropped."""
    waits = {s.name for s in app.streams if s.source.name.lower() == "synthetic"}
    bounded = [s.name for s in app.streams if s.buffer is not None]
    notes = [
        f"BUFFER of {name} has no effect: a file waits for whoever reads it" for name in bounded if name not in waits
    ]
    if drain:
        names = [("BUFFER", name) for name in bounded if name in waits]
        names += [("SHED", s.name) for s in app.streams if s.shed is not None] + [
            ("FIRM", q.name) for q in app.queries if q.firm
        ]
        notes += [f"{word} of {name} has no effect with --drain: nothing is dropped" for word, name in names]
    return notes


def run_to_end(engine: Engine, run: Run, stopped: AskedToStop) -> None:
    with RunDisplay() as display:
        display.starting()
        run.notify = display.say
        spark = engine.spark
        take_signals(stopped)  # Spark has put its own handler in place
        if stopped.is_set():
            return
        run.begin(spark)
        while run.active and not stopped.wait(_POLL_S):
            display.show(run.progress)
        display.show(run.progress)


def how_to_resume(arguments: RunArguments, app: App) -> str:
    if arguments.checkpoint is None:
        return "stopped before the end; with --checkpoint DIR a run can be taken up again"
    return f"stopped before the end; the same command goes on from {arguments.checkpoint}"


@contextmanager
def spark_log() -> Iterator[None]:
    """Spark's log stays where an error message names it, and nowhere else. What py4j logs goes there, too: stack
    traces, mostly."""
    logging.getLogger().addHandler(logging.FileHandler(log_path(), delay=True))
    ours = logging.getLogger("kigen")
    ours.addHandler(logging.StreamHandler())  # what runs tell, where no display does
    ours.propagate = False
    try:
        yield
    except (RunFailed, SparkUnavailable):
        raise
    except BaseException:
        _drop_log()
        raise
    _drop_log()


def _drop_log() -> None:
    for path in (log_path(), log_path().with_name(f"{log_path().name}.1")):
        path.unlink(missing_ok=True)


@contextmanager
def interruptible() -> Iterator[AskedToStop]:
    stopped = AskedToStop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    take_signals(stopped)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def take_signals(stopped: AskedToStop) -> None:
    """The first signal asks for an end; a second one ends at once."""

    def handle(number: int, _: object) -> None:
        if stopped.is_set():
            sys.stderr.write("ended at once\n")
            sys.exit(1)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
