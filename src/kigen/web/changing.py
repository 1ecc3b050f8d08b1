"""`/app`: shows the text of the app that runs, and changes it at the end of an epoch.

| request | body | answer |
|---|---|---|
| `GET /app` | | `{"text": ...}` |
| `POST /app/add` | `{"text": ..., "replay_from": ..., "plan": false}` | the change |
| `POST /app/change` | the same; `text` is the whole app | the change |
| `POST /app/drop` | `{"queries": [...], "plan": false}` | the change |
| `POST /app/save` | `{"to": ...}` | what was saved |

Invariant: one change at a time, and statements are checked before anything stops. What they may name is decided by
`kigen.engine.changes.allowed`. A caller that goes away does not stop a change.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kigen.connectors import InputError
from kigen.engine.changes.allowed import NotAllowed
from kigen.engine.checkpoint.fingerprint import CheckpointMismatch
from kigen.engine.errors import ArgumentError, RunFailed
from kigen.language import CqlError, CqlErrors
from kigen.web.requests import Limits, Refused, read_body
from kigen.web.served import Served

_FIELDS: dict[str, dict[str, type]] = {
    "add": {"text": str, "replay_from": str, "plan": bool},
    "change": {"text": str, "replay_from": str, "plan": bool},
    "drop": {"queries": list, "plan": bool},
    "save": {"to": str},
}
_REQUIRED = {"add": "text", "change": "text", "drop": "queries", "save": "to"}


class Changing:
    """All endpoints of `/app`."""

    def __init__(self, served: Served, limits: Limits) -> None:
        self._served, self._limits = served, limits
        self._one = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        return JSONResponse({"text": self._served.app.text})

    async def change(self, request: Request) -> Response:
        action = request.path_params["action"]
        if action not in _FIELDS:
            raise Refused(404, f"/app/{action}: use one of {', '.join(f'/app/{name}' for name in _FIELDS)}")
        asked = _asked(action, await read_body(request, self._limits))
        if self._one.locked():
            raise Refused(503, "another change is being made: try again", {"Retry-After": "2"})
        async with self._one:
            made = asyncio.ensure_future(run_in_threadpool(_answer, self._made(action, asked)))
            return JSONResponse(await asyncio.shield(made))

    def _made(self, action: str, asked: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        changes, plan = self._served.changes, bool(asked.get("plan", False))
        if action == "drop":
            return lambda: changes.drop([str(name) for name in asked["queries"]], plan).to_json()
        if action == "save":
            return lambda: changes.save(asked["to"], outside=True)
        text, since = asked["text"], asked.get("replay_from")
        if action == "add":
            return lambda: changes.add(text, None, since, plan, outside=True).to_json()
        return lambda: changes.change(text=text, replay_from=since, plan=plan, outside=True).to_json()


def _asked(action: str, body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise Refused(400, f"a JSON object is required: {error}") from error
    kinds, needed = _FIELDS[action], _REQUIRED[action]
    if not isinstance(asked, dict) or needed not in asked:
        raise Refused(400, f'a JSON object with "{needed}" is required')
    for key, value in asked.items():
        if key not in kinds:
            raise Refused(400, f'"{key}" is not known: use {", ".join(kinds)}')
        if not isinstance(value, kinds[key]) and not (value is None and key != needed):
            raise Refused(400, f'"{key}" must be of type {kinds[key].__name__}')
    return asked


def _answer(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make()
    except NotAllowed as error:
        raise Refused(403, str(error)) from error
    except (CqlErrors, CqlError) as error:
        found = error.errors if isinstance(error, CqlErrors) else [error]
        raise Refused(400, "the statements have errors", errors=[_error_json(one) for one in found]) from error
    except (InputError, ArgumentError, CheckpointMismatch, OSError) as error:
        raise Refused(409, str(error)) from error
    except RunFailed as error:
        raise Refused(500, str(error)) from error


def _error_json(error: CqlError) -> dict[str, Any]:
    return {
        "message": error.message,
        "line": error.line,
        "column": error.column,
        "length": error.length,
        "underlined": error.underlined,
        "source_line": error.source_line,
        "hint": error.hint,
    }
