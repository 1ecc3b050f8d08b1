"""The app file of a command."""

from __future__ import annotations

from pathlib import Path

from kigen.cli.exits import AppNotFound
from kigen.plan import load_app
from kigen.plan.nodes import App


def load(path: Path) -> App:
    if not path.is_file():
        what = "a directory" if path.is_dir() else "nothing there"
        raise AppNotFound(f"{path}: an app file is required, found {what}")
    try:
        return load_app(path)
    except UnicodeDecodeError as error:
        raise AppNotFound(f"{path}: an app file in UTF-8 is required: {error}") from error
