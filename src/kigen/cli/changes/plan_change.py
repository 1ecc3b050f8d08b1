"""`kigen plan-change`: shows what a changed app would keep, drop and add on a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kigen.cli.loading import load
from kigen.engine.changes.description import change_json, change_text
from kigen.engine.changes.preview import preview
from kigen.engine.errors import ArgumentError
from kigen.engine.options import RunOptions


def shown_change(
    app_file: Path, checkpoint: Path, format: str, replay_from: str | None, settings: Sequence[str]
) -> str:
    """Returns the change as text or JSON."""
    if format not in ("text", "json"):
        raise ArgumentError(f"--format is text or json, not '{format}'")
    app = load(app_file, None, settings)
    planned = preview(checkpoint, app, RunOptions(replay_from=replay_from).replay_us)
    if format == "json":
        return json.dumps(change_json(planned), indent=2) + "\n"
    return change_text(planned)
