"""Errors of the input, of expressions, of files and of memory as text, from a worker to the command: data only, nothing
to unpickle."""

from __future__ import annotations

import json

from kigen.connectors import InputError
from kigen.durable import DamagedFile
from kigen.lifetimes import EvaluationError
from kigen.spark.watch.memory import MemoryLimitReached


def to_text(error: Exception) -> str:
    if isinstance(error, InputError):
        return json.dumps({"input": [error.message, error.file, error.line, error.field]})
    if isinstance(error, MemoryLimitReached):
        return json.dumps({"memory": str(error)})
    if isinstance(error, DamagedFile):
        return json.dumps({"damaged": [error.file, error.found, error.todo]})
    if isinstance(error, OSError):
        return json.dumps({"file": [error.errno, error.strerror or str(error), error.filename]})
    return json.dumps({"evaluation": str(error).strip()})


def from_text(text: str) -> Exception:
    value = json.loads(text)
    if "memory" in value:
        return MemoryLimitReached(value["memory"])
    if "damaged" in value:
        return DamagedFile(*value["damaged"])
    if "file" in value:
        return OSError(*value["file"])
    return InputError(*value["input"]) if "input" in value else EvaluationError(value["evaluation"])
