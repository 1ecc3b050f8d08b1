"""The app file of a command."""

from __future__ import annotations

import sys
from pathlib import Path

from kigen.engine.apps import read_app
from kigen.plan.logical import App


def warn(app: App) -> None:
    """Shows the app's warnings on stderr; they change no exit code."""
    for warning in app.warnings:
        sys.stderr.write(f"{warning.render()}\n\n")


def load(path: Path, output: Path | None = None) -> App:
    """`output`: the folder that results are to go to; it must not hold what the app reads."""
    return read_app(path, output=output)
