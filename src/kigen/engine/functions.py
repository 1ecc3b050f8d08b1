"""Functions that a program registers with its engine, beside those that apps declare.

Their code travels to the workers by value, pickled as Spark pickles the functions of its users: it comes from the
program itself, never from a network.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from typing import Any

from kigen.engine.errors import ArgumentError
from kigen.plan.binder.expressions.duckdb_types import functions as known_functions
from kigen.plan.logical import Function
from kigen.plan.type_texts import declared_type
from kigen.plan.types import Type


class RegisteredFunctions:
    """Holds the functions of one engine."""

    def __init__(self) -> None:
        self._known: dict[str, Function] = {}

    @property
    def all(self) -> tuple[Function, ...]:
        return tuple(self._known.values())

    def add(self, name: str, code: Callable[..., Any], parameters: Sequence[str], returns: str, replace: bool) -> None:
        """Adds a function; raises ArgumentError if its name or a type is not possible."""
        from kigen.spark.closures import by_value

        if not name.isidentifier() or keyword.iskeyword(name) or name.lower() in known_functions():
            what = "CQL has a function of that name" if name.lower() in known_functions() else "it is not a name"
            raise ArgumentError(f"function {name!r}: {what}; give it another one, as in my_function")
        if name.lower() in self._known and not replace:
            raise ArgumentError(f"function {name!r} is registered already: give it another name, or replace=True")
        if not callable(code) or isinstance(parameters, str):
            wrong = "parameters must be a list of types" if callable(code) else f"a function is required, got {code!r}"
            raise ArgumentError(f"function {name!r}: {wrong}")
        kinds = [_type(name, kind) for kind in (*parameters, returns)]
        module = getattr(code, "__module__", None) or "program"  # what exec() defines may have no module
        attribute = getattr(code, "__qualname__", type(code).__name__)
        body = by_value(code)
        self._known[name.lower()] = Function(name, tuple(kinds[:-1]), kinds[-1], module, attribute, body=body)


def _type(name: str, kind: str) -> Type:
    found = declared_type(kind)
    if found is None:
        raise ArgumentError(f"function {name!r}: unknown type {kind!r}; write BOOLEAN, BIGINT, DOUBLE, STRING ...")
    return found
