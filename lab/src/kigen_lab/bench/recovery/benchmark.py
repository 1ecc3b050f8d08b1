"""Measures how long a run of one machine is away after a kill: all processes get SIGKILL late in an epoch, and the
same command is started again at once.

Away is from the restart to the first new result. Two starts that replay nothing are beside it: the first one of the
app, and one after SIGTERM, which ends the epoch. What a restart takes beyond the latter is the price of the replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from kigen_lab.bench.machine import describe_machine
from kigen_lab.bench.recovery.live_command import APP, LiveCommand
from kigen_lab.bench.workspace import workspace

_CAUGHT_UP_US = 500_000.0  # behind the clock
_LIMIT_S = 180.0
KINDS = ("first_s", "after_term_s", "after_kill_s", "caught_up_s", "term_s")


@dataclass(frozen=True)
class RecoverySettings:
    """What `kigen bench recovery` measures."""

    rates: tuple[int, ...] = (1_000, 10_000)
    trials: int = 3
    epoch_s: float = 30.0
    late_s: float = 27.0  # after the first result: late in the first epoch
    out: Path = Path("out/bench")


class RecoveryBench:
    """Kills and restarts the command at every rate."""

    def __init__(self, settings: RecoverySettings, say: Callable[[str], None]) -> None:
        self.settings, self._say = settings, say

    @property
    def steps(self) -> int:
        return len(self.settings.rates) * self.settings.trials

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        cells = []
        with workspace(self.settings.out) as work:
            for rate in self.settings.rates:
                trials = []
                for trial in range(self.settings.trials):
                    self._say(f"{rate:,} tuples/s, trial {trial + 1}")
                    folder = work / f"{rate}-{trial}"
                    folder.mkdir()
                    trials.append(self._trial(folder, rate))
                    advance()
                cells.append(cell_of(rate, trials))
        return {
            "bench": "recovery",
            "machine": describe_machine(),
            "settings": {**asdict(self.settings), "out": None},
            "cells": cells,
        }

    def _trial(self, folder: Path, rate: int) -> dict[str, float]:
        (folder / "app.cql").write_text(APP.format(rate=rate), encoding="utf-8")
        first = self._start(folder)
        try:
            first_s = first.wait_for(lambda: first.last_us() > 0, _LIMIT_S, "first result")
            late_s = first_s + self.settings.late_s
            first.wait_for(lambda: _passed(first) >= late_s, _LIMIT_S, "the moment of the kill")
            before_us = first.last_us()
        finally:
            first.close()
        killed = self._start(folder)
        try:
            after_kill_s = killed.wait_for(lambda: killed.last_us() > before_us, _LIMIT_S, "new result")
            caught_up_s = killed.wait_for(lambda: killed.behind_us() < _CAUGHT_UP_US, _LIMIT_S, "recent result")
            killed.wait_for(lambda: _passed(killed) >= caught_up_s + 5, _LIMIT_S, "the moment of SIGTERM")
            term_s, code = killed.terminate(_LIMIT_S)
            before_us = killed.last_us()
        finally:
            killed.close()
        ended = self._start(folder)
        try:
            after_term_s = ended.wait_for(lambda: ended.last_us() > before_us, _LIMIT_S, "new result")
        finally:
            ended.close()
        seconds = (first_s, after_term_s, after_kill_s, caught_up_s, term_s)
        found = {kind: round(taken, 3) for kind, taken in zip(KINDS, seconds, strict=True)}
        return {**found, "term_code": code}

    def _start(self, folder: Path) -> LiveCommand:
        return LiveCommand(folder, "--epoch", f"{self.settings.epoch_s:g} s")


def _passed(command: LiveCommand) -> float:
    return command.wait_for(lambda: True, 1.0, "now")


def cell_of(rate: int, trials: list[dict[str, float]]) -> dict[str, Any]:
    """Returns the medians of the trials, and what a restart after a kill takes beyond one that replays nothing."""
    medians = {kind: round(median(trial[kind] for trial in trials), 3) for kind in KINDS}
    beyond_s = round(median(trial["after_kill_s"] - trial["after_term_s"] for trial in trials), 3)
    codes = sorted({int(trial["term_code"]) for trial in trials})
    return {"rate": rate, "medians": medians, "beyond_start_s": beyond_s, "term_codes": codes, "trials": trials}
