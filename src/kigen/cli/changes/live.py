"""`kigen add`, `kigen drop`, `kigen change` and `kigen save --at`: asks a running app to change, and shows its answer.

INCLUDE and parameters are resolved here, so the app gets plain statements, and its errors are shown at the places of
the files here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kigen.cli.changes.served_app import AnsweredError, ServedApp
from kigen.cli.loading import parameters
from kigen.engine.errors import AppNotFound, ArgumentError
from kigen.language import CqlErrors, parse_app
from kigen.language.app_text import Source

_CHANGE_S = 600.0  # for the end of an epoch, the change, and the start of the next epoch


def ask_with_text(
    app: ServedApp,
    action: str,
    file: str,
    settings: Sequence[str],
    replay_from: str | None,
    plan: bool,
) -> dict[str, Any]:
    """Sends the statements of a file, or of standard input ('-')."""
    source = _source(file, settings)
    body: dict[str, Any] = {"text": source.text, "plan": plan}
    if replay_from is not None:
        body["replay_from"] = replay_from
    try:
        return ask(app, action, body)
    except AnsweredError as error:
        found = error.body.get("errors")
        if not found:
            raise
        raise CqlErrors([_placed(source, one) for one in found]) from error


def ask(app: ServedApp, action: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sends a request. Raises AnsweredError with the app's own words."""
    try:
        answer: dict[str, Any] = app.post(f"/app/{action}", body, _CHANGE_S)
    except AnsweredError as error:
        if "error" not in error.body or "errors" in error.body:
            raise
        raise AnsweredError(str(error.body["error"]), error.status, error.body) from error
    return answer


def shown(answer: dict[str, Any], format: str) -> str:
    """Returns the answer as text or JSON."""
    if format not in ("text", "json"):
        raise ArgumentError(f"--format is text or json, not '{format}'")
    if format == "json":
        return json.dumps({k: v for k, v in answer.items() if k != "text"}, indent=2) + "\n"
    paused = answer["paused_s"]
    if not answer["made"]:
        return str(answer["text"]) + "planned only: nothing has changed\n"
    return str(answer["text"]) + (f"changed; all queries waited {paused:.1f} s\n" if paused else "")


def _source(file: str, settings: Sequence[str]) -> Source:
    if file == "-":
        text, name, directory = sys.stdin.read(), "<stdin>", "."
    else:
        path = Path(file)
        if not path.is_file():
            raise AppNotFound(f"{file}: no such file")
        text, name, directory = path.read_text(encoding="utf-8"), file, str(path.resolve().parent)
    found = parse_app(text, name, directory, parameters(settings))
    if found.errors:
        raise CqlErrors(found.errors)
    return found.source


def _placed(source: Source, error: dict[str, Any]) -> Any:
    """Returns an error of the app at its place in the files here."""
    lines = source.text.split("\n")
    row = min(max(int(error["line"]), 1), len(lines)) - 1
    start = sum(len(line) + 1 for line in lines[:row]) + int(error["column"]) - 1
    return source.error((start, start + int(error.get("length", 1))), error["message"], error.get("hint"))
