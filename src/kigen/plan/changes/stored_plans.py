"""Writes plans as JSON and reads them again: a checkpoint keeps the plans that run, so that a changed app cannot alter
them.

Invariant: what is read is equal to what was written, and equal sub-plans are one object. Only classes of `kigen.plan`
are made from JSON, so a file can hold nothing but a plan. Each sub-plan is stored once, however many queries share it.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from kigen.plan.type_texts import declared_type
from kigen.plan.types import Type

_PACKAGE = "kigen.plan."


class StoredPlanError(ValueError):
    """A stored plan cannot be read by this version."""


def to_json(value: Any) -> dict[str, Any]:
    """Returns any value that is made of plan nodes, declarations, enums, tuples, dicts and plain values as JSON."""
    parts: list[Any] = []
    places: dict[str, int] = {}
    seen: dict[int, int] = {}

    def written(value: Any) -> Any:
        if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
            return value
        if isinstance(value, tuple | list):
            return [written(one) for one in value]
        if isinstance(value, Type):
            return {"type": value.value}
        if isinstance(value, Enum):
            return {"enum": _name(type(value)), "is": value.name}
        if isinstance(value, dict):
            return {"dict": [[written(key), written(one)] for key, one in value.items()]}
        if isinstance(value, frozenset):
            return {"set": sorted(written(one) for one in value)}
        if is_dataclass(value) and not isinstance(value, type):
            if id(value) not in seen:
                seen[id(value)] = place(value)
            return {"part": seen[id(value)]}
        raise TypeError(f"a plan holds a {type(value).__name__}, which cannot be stored")

    def place(value: Any) -> int:
        body = {f.name: written(getattr(value, f.name)) for f in fields(value) if f.init}
        text = json.dumps([_name(type(value)), body])
        if text not in places:
            parts.append([_name(type(value)), body])
            places[text] = len(parts) - 1
        return places[text]

    root = written(value)
    return {"parts": parts, "root": root}


def from_json(stored: dict[str, Any]) -> Any:
    """Returns the value that `to_json` wrote, with tuples for lists. Raises StoredPlanError."""
    made: list[Any] = []

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(read(one) for one in value)
        if not isinstance(value, dict):
            return value
        if "part" in value:
            return made[value["part"]]
        if "type" in value:
            return _type(value["type"])
        if "enum" in value:
            if value["enum"] == "kigen.plan.types:Type":  # as it was when types were an enum
                return _type(value["is"])
            return _class(value["enum"])[value["is"]]
        if "set" in value:
            return frozenset(read(one) for one in value["set"])
        return {read(key): read(one) for key, one in value["dict"]}

    try:
        for name, body in stored["parts"]:
            made.append(_class(name)(**{field: read(value) for field, value in body.items()}))
        return read(stored["root"])
    except (KeyError, TypeError, IndexError, AttributeError, ImportError) as error:
        raise StoredPlanError(f"a stored plan cannot be read: {error}") from error


def _type(text: str) -> Type:
    found = declared_type(text)
    if found is None:
        raise StoredPlanError(f"a stored plan names the type {text}, which this version does not have")
    return found


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not name.startswith(_PACKAGE):
        raise TypeError(f"a plan holds a {kind.__name__} of {kind.__module__}, which cannot be stored")
    return name


def _class(name: str) -> Any:
    module, _, kind = name.partition(":")
    if not module.startswith(_PACKAGE):
        raise StoredPlanError(f"a stored plan names {name}, which is no part of a plan")
    found = getattr(importlib.import_module(module), kind)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum))):
        raise StoredPlanError(f"a stored plan names {name}, which is no part of a plan")
    return found
