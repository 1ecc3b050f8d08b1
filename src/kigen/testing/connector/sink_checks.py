"""Checks of sinks: every row once, whichever commit a run was cut off at, and whether or not its position was recorded.

A kill is played: the sink is left as it is, with rows that were never committed, another is opened at the recorded
position, and the output is read before the first is closed.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kigen.connectors import Sink, SinkPosition, open_sink
from kigen.connectors.encoding import times_of
from kigen.testing.connector.cases import SinkCase, Target, require
from kigen.testing.connector.sink_rows import COMMITS, WRITES, expected, require_lines, table


class _Output:
    """One target, and the sinks that were opened on it."""

    def __init__(self, case: SinkCase) -> None:
        name = f"t{uuid.uuid4().hex[:10]}"
        self.target: Target = case.target(name)
        self._run, self._query = name, self.target.query(not case.relation)
        assert self._query.into is not None
        mode = str(self._query.into.option("mode", "append"))
        self.keyed = mode in ("upsert", "current")
        self._is_stream = not case.relation
        self.times = times_of(self._is_stream, mode != "append")
        self._left: list[Sink] = []

    def opened(self, position: SinkPosition | None, syncs: bool = False) -> Sink:
        """Opens a sink as a run does that starts, or continues at a position. Without syncs, a kill loses nothing; only
        a power cut may."""
        into, schema = self._query.into, self._query.schema
        assert into is not None
        sink = open_sink(into, schema, self._is_stream, str(self.target.directory), self._query.name)
        sink.run_name, sink.syncs = self._run, syncs
        sink.open(position)
        self._left.append(sink)
        return sink

    def write(self, sink: Sink, commit: int) -> None:
        for write in range(WRITES):
            sink.write(table(commit, write, self.times, self.keyed))
            sink.end_round()

    def step(self, sink: Sink, commit: int) -> SinkPosition:
        """Writes and commits, and returns the position as the sink log keeps it."""
        self.write(sink, commit)
        position: SinkPosition = json.loads(json.dumps(sink.commit()))
        return position

    def require(self, what: str, commits: int = COMMITS) -> None:
        wanted = expected(commits, self.times, self.keyed)
        require_lines(what, wanted, self.target.read(), () if self.keyed else self.times)

    def close(self) -> None:
        """Closes all sinks. Those that were left behind may complain: others have taken over."""
        *left, last = self._left
        last.close()
        for sink in left:
            with contextlib.suppress(Exception):
                sink.close()


def every_row_once(case: SinkCase) -> None:
    """Writes without any failure: the rows are there when the last commit has returned; an empty commit adds none."""
    output = _Output(case)
    sink = output.opened(None, syncs=True)
    for commit in range(COMMITS):
        position = output.step(sink, commit)
    again = json.loads(json.dumps(sink.commit()))
    require(again == position, f"a commit without new rows moved the position from {position} to {again}")
    output.require("a run without failures")
    output.close()
    output.require("a run without failures, after close")


def a_restart_at_every_commit(case: SinkCase) -> None:
    """Kills the run after each commit, with rows under way that were not committed, and goes on at that commit."""
    for cut in range(COMMITS):
        _cut_off(case, cut, lost=0)


def a_commit_that_was_not_recorded(case: SinkCase) -> None:
    """Kills the run between a commit and the record of its position: the run goes on at the commit before."""
    for cut in range(1, COMMITS):
        _cut_off(case, cut, lost=1)


def a_restart_that_fails_at_once(case: SinkCase) -> None:
    """Opens the output twice at the same position: opening changes nothing that the next opening needs."""
    output = _Output(case)
    sink = output.opened(None)
    output.step(sink, 0)
    position = output.step(sink, 1)
    output.write(sink, 2)
    output.opened(position)
    sink = output.opened(position)
    for commit in range(2, COMMITS):
        output.step(sink, commit)
    output.require("a run that was opened twice at one position")
    output.close()


def an_orderly_end(case: SinkCase) -> None:
    """Closes the sink after each commit, and goes on with another: as runs do that are stopped and started."""
    output = _Output(case)
    position: SinkPosition | None = None
    for commit in range(COMMITS):
        sink = output.opened(position)
        position = output.step(sink, commit)
        sink.close()
    output.require("a run that was stopped after every commit")


def encoded_files_are_adopted(case: SinkCase) -> None:
    """Gives some results as files that a worker has encoded, if the sink has an encoder: the output is the same."""
    output = _Output(case)
    sink = output.opened(None)
    encoder = sink.encoder()
    if encoder is not None:
        worker = pickle.loads(pickle.dumps(encoder))
        with TemporaryDirectory() as folder:
            for commit in range(COMMITS):
                for write in range(WRITES):
                    _give(output, sink, worker, Path(folder) / f"{commit}-{write}", commit, write)
                position = json.loads(json.dumps(sink.commit()))
                if commit == 2:
                    sink = output.opened(position)
        output.require("results that arrive as files and as tables in turn")
    output.close()


def _give(output: _Output, sink: Sink, encoder: Any, path: Path, commit: int, write: int) -> None:
    rows = table(commit, write, output.times, output.keyed)
    if (commit + write) % 2:
        sink.write(rows)
    else:
        encoding = encoder.start(str(path))
        encoding.add(rows.slice(0, 1))
        encoding.add(rows.slice(1))
        encoding.finish()
        sink.adopt(str(path))
        require(not path.exists(), "adopt must move the file, or delete it")
    sink.end_round()


def _cut_off(case: SinkCase, cut: int, lost: int) -> None:
    output = _Output(case)
    sink, positions = output.opened(None), list[SinkPosition | None]([None])
    for commit in range(cut):
        positions.append(output.step(sink, commit))
    output.write(sink, cut)  # and never committed
    sink = output.opened(positions[cut - lost])
    for commit in range(cut - lost, COMMITS):
        output.step(sink, commit)
    how = "whose position was not recorded" if lost else "with rows under way"
    output.require(f"a run that was killed after commit {cut}, {how}")
    output.close()


SINK_CHECKS: tuple[Callable[[SinkCase], None], ...] = (
    every_row_once,
    a_restart_at_every_commit,
    a_commit_that_was_not_recorded,
    a_restart_that_fails_at_once,
    an_orderly_end,
    encoded_files_are_adopted,
)


def check_sink(case: SinkCase) -> None:
    """Runs all checks of a sink. Raises Nonconforming at the first that fails."""
    for check in SINK_CHECKS:
        check(case)
