"""Errors of the engine. Each inherits the builtin that a caller would catch, and survives pickling.

This module loads without Spark, so that `from kigen import RunFailed` costs nothing.
"""

from __future__ import annotations


class AppNotFound(FileNotFoundError, ValueError):
    """There is no readable app file at the given path. `kigen` exits with code 2.

    >>> try:
    ...     kigen.check("missing.cql")
    ... except FileNotFoundError as error:
    ...     print(error)
    missing.cql: an app file is required, found nothing there
    """


class ArgumentError(ValueError):
    """An argument of a run has a value that is not possible. `kigen` exits with code 2.

    >>> try:
    ...     kigen.RunOptions(lifetime="it")
    ... except ValueError as error:
    ...     print(error)
    lifetime 'it' is not known: use one of dt, nt
    """


class RunFailed(RuntimeError):
    """Spark, or a fault in Kigen, ended the run. `kigen` exits with code 1."""


class SparkDied(RunFailed):
    """Spark's JVM or one of its Python workers was killed. The same run, started again, continues."""
