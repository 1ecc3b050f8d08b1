"""Runs the functions of an app in this process: loads their code, and makes them known to the connection of DuckDB.

DuckDB calls a function with one Arrow array per parameter, some 2,000 rows at a time, and never with NULL: a NULL among
the arguments gives NULL. Invariant: a function is known by its `call`, which stands for its whole code; so functions of
several apps can live in one process. Cost: one call of Python per 2,000 rows, and whatever the function does.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa

from kigen.plan.logical import Function

_known: dict[str, tuple[Function, Callable[..., Any]]] = {}
MADE_BY = "Python exception occurred while executing the UDF: "  # how DuckDB begins the error of a function


class FunctionError(ValueError):
    """The code of a function cannot be loaded."""


def install(functions: Iterable[Function], connections: Iterable[duckdb.DuckDBPyConnection]) -> None:
    """Loads functions that this process does not know yet, and adds them to the connections that exist already."""
    for function in functions:
        if function.call not in _known:
            _known[function.call] = function, _loaded(function)
            for connection in connections:
                _add(connection, function, _known[function.call][1])


def add_known(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes all functions of this process known to a new connection."""
    for function, code in _known.values():
        _add(connection, function, code)


def _add(connection: duckdb.DuckDBPyConnection, function: Function, code: Callable[..., Any]) -> None:
    wanted = function.returns.arrow

    def called(*arguments: pa.ChunkedArray) -> pa.ChunkedArray:
        rows = len(arguments[0]) if arguments else 0
        if arguments and not rows:
            return pa.chunked_array([], type=wanted)
        given = [a.combine_chunks() for a in arguments]
        result = code(*(a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in given))
        return _as_column(result, wanted, rows)

    called.__signature__ = function.signature  # type: ignore[attr-defined]
    kinds = [kind.duckdb for kind in function.parameters]
    atexit.register(connection.close)  # otherwise DuckDB reports leaks when the process ends
    connection.create_function(function.call, called, kinds, function.returns.duckdb, type="arrow")


def _as_column(result: Any, wanted: pa.DataType, rows: int) -> pa.ChunkedArray:
    """Returns what a function gave as a column: an Arrow array, or what Arrow can make one of."""
    if isinstance(result, pa.Scalar):
        raise TypeError(f"an array of {rows} values is required, got one value")
    if not isinstance(result, pa.Array | pa.ChunkedArray):
        result = pa.array(result, from_pandas=False)
    if len(result) != rows:
        raise TypeError(f"an array of {rows} values is required, got {len(result)}")
    cast = result if result.type == wanted else result.cast(wanted)
    return cast if isinstance(cast, pa.ChunkedArray) else pa.chunked_array([cast])


def _loaded(function: Function) -> Callable[..., Any]:
    where = f"{function.module}:{function.attribute}"
    try:
        if function.body is not None:
            code = pickle.loads(function.body)
        elif function.code is not None:
            code = getattr(_module(function), function.attribute)
        else:
            code = getattr(importlib.import_module(function.module), function.attribute)
    except Exception as error:
        raise FunctionError(f"function {function.name} ({where}): {type(error).__name__}: {error}") from error
    if not callable(code):
        raise FunctionError(f"function {function.name} ({where}): a function is required, got {type(code).__name__}")
    found: Callable[..., Any] = code
    return found


def _module(function: Function) -> ModuleType:
    """Runs the text of a module under a name of its own, so that an older version in this process stays what it is.
    What the module imports is looked up beside it, too, where that directory exists."""
    assert function.code is not None
    assert function.path is not None
    name = f"kigen_functions_{function.call}"
    module = ModuleType(name)
    module.__file__ = function.path
    folder = os.path.dirname(function.path)
    if os.path.isdir(folder) and folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        exec(compile(function.code, function.path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
