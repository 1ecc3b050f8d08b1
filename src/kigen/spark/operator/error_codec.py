"""Encodes errors of a worker as text for the command: of input, expressions, files and memory.

The text is JSON with data only: nothing is unpickled.
"""

from __future__ import annotations

import json

from kigen.connectors import InputError
from kigen.durable import DamagedFile
from kigen.lifetimes import EvaluationError
from kigen.spark.watch.memory import MemoryLimitReached


def to_text(error: Exception) -> str:
    """Encodes an error."""
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
    """Decodes an error."""
    value = json.loads(text)
    if "memory" in value:
        return MemoryLimitReached(value["memory"])
    if "damaged" in value:
        return DamagedFile(*value["damaged"])
    if "file" in value:
        return OSError(*value["file"])
    return InputError(*value["input"]) if "input" in value else EvaluationError(value["evaluation"])
