"""Reads the app file of a command and shows its warnings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kigen.engine.apps import read_app
from kigen.engine.errors import ArgumentError
from kigen.language.expansion import Value, value_of
from kigen.plan.logical import App


def warn(app: App) -> None:
    """Writes the app's warnings to standard error. They do not change the exit code."""
    for warning in app.warnings:
        sys.stderr.write(f"{warning.render()}\n\n")


def load(path: Path, output: Path | None = None, settings: Sequence[str] = ()) -> App:
    """Reads and checks an app. `output` is the folder for results; no file that the app reads may be written there.
    `settings` are the values of parameters, as in `--set`."""
    return read_app(path, output=output, params=parameters(settings))


def parameters(settings: Sequence[str]) -> dict[str, Value]:
    """Returns the values of `--set NAME=VALUE`, by name."""
    values: dict[str, Value] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip().lstrip("$").isidentifier():
            raise ArgumentError(f"--set needs NAME=VALUE, got {setting!r}: write --set limit=10")
        values[name.strip().lstrip("$")] = value_of(value.strip())
    return values
