"""Reads the app file of a command and shows its warnings."""

from __future__ import annotations

import sys
from pathlib import Path

from kigen.engine.apps import read_app
from kigen.plan.logical import App


def warn(app: App) -> None:
    """Writes the app's warnings to standard error. They do not change the exit code."""
    for warning in app.warnings:
        sys.stderr.write(f"{warning.render()}\n\n")


def load(path: Path, output: Path | None = None) -> App:
    """Reads and checks an app. `output` is the folder for results; no file that the app reads may be written there."""
    return read_app(path, output=output)
