"""Reads the app file of a command and shows its warnings."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from kigen.engine.apps import read_app, with_lacking
from kigen.engine.errors import ArgumentError
from kigen.language.errors import CqlError
from kigen.language.expansion import Value, value_of
from kigen.plan.logical import App


def warn(warnings: Sequence[CqlError]) -> None:
    """Writes warnings to standard error. They do not change the exit code."""
    for warning in warnings:
        sys.stderr.write(f"{warning.render()}\n\n")


def load(path: Path, output: Path | None = None, settings: Sequence[str] = ()) -> App:
    """Reads and checks an app. `output` is the folder for results; no file that the app reads may be written there.
    `settings` are the values of parameters, as in `--set`."""
    return read_app(path, output=output, params=parameters(settings))


def warnings_of(app: App, path: Path, settings: Sequence[str] = ()) -> list[CqlError]:
    """Returns the warnings of an app, also those about the files that it reads."""
    return with_lacking(app, path, parameters(settings))


def parameters(settings: Sequence[str]) -> dict[str, Value]:
    """Returns the values of `--set NAME=VALUE`, by name."""
    values: dict[str, Value] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip().lstrip("$").isidentifier():
            raise ArgumentError(f"--set needs NAME=VALUE, got {setting!r}: write --set limit=10")
        values[name.strip().lstrip("$")] = value_of(value.strip())
    return values
