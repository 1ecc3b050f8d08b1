"""The app file of a command."""

from __future__ import annotations

import sys
from pathlib import Path

from kigen.cli.exits import AppNotFound
from kigen.plan import load_app
from kigen.plan.logical import App


def warn(app: App) -> None:
    """Shows the app's warnings on stderr; they change no exit code."""
    for warning in app.warnings:
        sys.stderr.write(f"{warning.render()}\n\n")


def load(path: Path, output: Path | None = None) -> App:
    """`output`: the folder that results are to go to; it must not hold what the app reads."""
    if not path.is_file():
        what = "a directory" if path.is_dir() else "nothing there"
        raise AppNotFound(f"{path}: an app file is required, found {what}")
    try:
        return load_app(path, output)
    except UnicodeDecodeError as error:
        raise AppNotFound(f"{path}: an app file in UTF-8 is required: {error}") from error
