"""Errors of the input, of expressions and of files as text, on their way from a worker to the command: data only, nothing to unpickle."""

from __future__ import annotations

import json

from kigen.connectors import InputError
from kigen.lifetimes import EvaluationError


def to_text(error: Exception) -> str:
    if isinstance(error, InputError):
        return json.dumps({"input": [error.message, error.file, error.line, error.field]})
    if isinstance(error, OSError):
        return json.dumps({"file": [error.errno, error.strerror or str(error), error.filename]})
    return json.dumps({"evaluation": str(error).strip()})


def from_text(text: str) -> Exception:
    value = json.loads(text)
    if "file" in value:
        return OSError(*value["file"])
    return InputError(*value["input"]) if "input" in value else EvaluationError(value["evaluation"])
