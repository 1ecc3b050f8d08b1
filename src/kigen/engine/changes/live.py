"""Changes the app of a run that goes on: adds statements, drops queries, or takes another app.

The text of the app that runs is the starting point, so a stream that was added earlier can be read by a query that is
added later. Invariant: everything that can be wrong with a change is found before anything stops. A change from outside
(over HTTP) passes `kigen.engine.changes.allowed` first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from kigen.engine.changes.allowed import Allowed, NotAllowed
from kigen.engine.changes.description import change_json, change_text
from kigen.engine.changes.edits import ADDED, expanded, with_statements, without_queries
from kigen.engine.changes.planned import PlannedChange
from kigen.engine.errors import ArgumentError
from kigen.engine.options import RunOptions, instant_us
from kigen.language.expansion import Value
from kigen.plan.logical import App


@dataclass(frozen=True)
class AppChange:
    """A change of a running app.

    Attributes:
        made: Whether it was made. Otherwise it was only planned.
        queries: For each query: its name as `query`, and what happens as `action` ("keep", "add", "drop", "change").
        notes: What becomes of outputs and windows.
        paused_s: How long the other queries had to wait, in seconds. 0: nothing had to stop.
        text: The change as a table.
    """

    made: bool
    queries: list[dict[str, Any]]
    notes: list[str]
    paused_s: float
    text: str

    @staticmethod
    def of(planned: PlannedChange, made: bool, paused_s: float) -> AppChange:
        told = change_json(planned)
        return AppChange(made, told["queries"], told["notes"], paused_s, change_text(planned))

    def to_json(self) -> dict[str, Any]:
        """Returns the change as JSON."""
        return {
            "made": self.made,
            "queries": self.queries,
            "notes": self.notes,
            "paused_s": round(self.paused_s, 3),
            "text": self.text,
        }


class Changeable(Protocol):
    """A run, as far as its app is changed (`kigen.engine.Run`)."""

    app: App
    options: RunOptions

    def change_to(self, declared: App, replay_us: int | None = None, plan: bool = False) -> AppChange: ...

    def save(self, to: str | Path) -> dict[str, Any]: ...


class ReadApp(Protocol):
    """Reads an app with the streams and functions of an engine (`kigen.engine.apps.read_app`)."""

    def __call__(
        self,
        app: str | Path | App | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
    ) -> App: ...


class LiveChanges:
    """Changes one run."""

    def __init__(self, run: Changeable, read: ReadApp | None) -> None:
        self._run, self._read = run, read

    def add(
        self,
        text: str,
        params: Mapping[str, Value] | None = None,
        replay_from: str | datetime | None = None,
        plan: bool = False,
        outside: bool = False,
    ) -> AppChange:
        """Adds statements. `plan`: changes nothing. `outside`: they come from outside the process."""
        app = self._run.app
        if outside:
            self._allowed.check_text(text, ADDED, app)
        text = expanded(text, ADDED, app.directory, params)
        declared = with_statements(app, text, self._read_text)
        return self._change(declared, replay_from, plan, outside)

    def drop(self, queries: Sequence[str], plan: bool = False) -> AppChange:
        """Drops queries."""
        return self._change(without_queries(self._run.app, queries, self._read_text), None, plan, False)

    def change(
        self,
        app: str | Path | App | None = None,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
        replay_from: str | datetime | None = None,
        plan: bool = False,
        outside: bool = False,
    ) -> AppChange:
        """Takes another app. Text from outside has paths as the running app has them."""
        if outside:
            assert text is not None
            self._allowed.check_text(text, ADDED, self._run.app)
        if text is not None and base is None:
            base = self._run.app.directory
        if self._read is None:
            raise ArgumentError("this run cannot be changed")
        return self._change(self._read(app, text=text, base=base, params=params), replay_from, plan, outside)

    def save(self, to: str, outside: bool = False) -> dict[str, Any]:
        """Saves the app to a folder. From outside, the folder must be below a path of `--allow`."""
        if outside and not self._allowed.allows_path(to, os.getcwd()):
            raise NotAllowed(f"the folder '{to}' was not allowed: start the run with --allow PATH")
        return self._run.save(to)

    def _change(self, declared: App, replay_from: str | datetime | None, plan: bool, outside: bool) -> AppChange:
        if outside:
            self._allowed.check_app(declared, self._run.app)
        return self._run.change_to(declared, None if replay_from is None else instant_us(replay_from), plan)

    def _read_text(self, text: str, file: str) -> App:
        if self._read is None or not self._run.app.text:
            raise ArgumentError("this run has no text to change: start it from an app file or text=")
        return self._read(text=text, base=self._run.app.directory)

    @property
    def _allowed(self) -> Allowed:
        return Allowed.parse(tuple(self._run.options.allow))
