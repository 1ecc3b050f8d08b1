"""`kigen save`: saves an app that is stopped, or asks a running one to save itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kigen.cli.changes.live import ask
from kigen.cli.changes.served_app import ServedApp
from kigen.engine.checkpoint.owner import Owner
from kigen.engine.checkpoint.savepoint import missing_text, write_savepoint
from kigen.engine.errors import ArgumentError


def saved(to: str, checkpoint: Path | None, at: str | None, token: Path | None) -> str:
    """Saves, and says what was saved and what was not."""
    if (checkpoint is None) == (at is None):
        raise ArgumentError(
            "exactly one of --checkpoint DIR (a stopped app) and --at HOST:PORT (a running one) is required"
        )
    if at is not None:
        about = ask(ServedApp(at, token), "save", {"to": to})
    else:
        assert checkpoint is not None
        about = _save_stopped(checkpoint, Path(to))
    paused = f"; all queries waited {about['paused_s']:.1f} s" if "paused_s" in about else ""
    head = f"saved to {to}: {', '.join(about['queries'])}, after batch {about['batch']}{paused}\n"
    return f"{head}{missing_text(about)}continue with:  kigen run APP --checkpoint {to}\n"


def _save_stopped(checkpoint: Path, to: Path) -> dict[str, Any]:
    if not checkpoint.is_dir():
        raise ArgumentError(f"{checkpoint}: no such checkpoint")
    owner = Owner(checkpoint)
    owner.acquire()
    try:
        return write_savepoint(checkpoint, to)
    finally:
        owner.release()
