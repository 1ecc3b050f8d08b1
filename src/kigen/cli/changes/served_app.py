"""Talks to an app that `kigen run --serve` runs: over HTTP, with the token of the app (docs/reference/http.md)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from kigen.engine.errors import ArgumentError

_ANSWER_S = 30.0


class AnsweredError(ArgumentError):
    """The app refuses a request. `body` is what it answered."""

    def __init__(self, message: str, status: int = 0, body: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.body = status, body or {}


class ServedApp:
    """Asks one app. `token` is the file that holds the token of the app."""

    def __init__(self, address: str, token: Path | None) -> None:
        if token is None:
            raise ArgumentError("a running app needs --token FILE: it is serve/token below the app's checkpoint")
        if not token.is_file():
            raise ArgumentError(f"--token {token}: no such file; it is serve/token below the app's checkpoint")
        self.address = (address if "://" in address else f"http://{address}").rstrip("/")
        self._token = token.read_text(encoding="utf-8").strip()

    def get(self, path: str) -> Any:
        return self._ask(path, None, _ANSWER_S)

    def post(self, path: str, body: dict[str, Any], timeout_s: float = _ANSWER_S) -> Any:
        return self._ask(path, body, timeout_s)

    def _ask(self, path: str, body: dict[str, Any] | None, timeout_s: float) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.address + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            reason = error.read().decode("utf-8", "replace").strip()
            raise AnsweredError(f"{self.address}{path}: {error.code} {reason}", error.code, _json(reason)) from error
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise AnsweredError(f"no app answers at {self.address}: {error}") from error


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
