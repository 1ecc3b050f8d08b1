"""Functions that an app declares: Python code that expressions call by name.

Invariant: `call` is the name in the text of bound expressions. It carries a digest of all that the function is, so that
equal names mean equal functions in every process, and a changed function is a changed query to a checkpoint.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import dataclass, field
from functools import cached_property

from kigen.plan.types import Type

_CALL = re.compile(r"(\w+)__py[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Function:
    """A vectorised function: one Arrow array per parameter in, one Arrow array of the same length out."""

    name: str
    parameters: tuple[Type, ...]
    returns: Type
    module: str  # as in 'module:attribute'; for a function that a program registered, where it was defined
    attribute: str
    path: str | None = None  # of the module's file beside the app file; None: the workers import the module
    code: str | None = field(default=None, repr=False)  # text of that file, which travels with the plan
    body: bytes | None = field(default=None, repr=False)  # of a function that a program registered: pickled

    @cached_property
    def call(self) -> str:
        """The name by which bound expressions call the function."""
        types = [str(kind) for kind in (*self.parameters, self.returns)]
        parts = (self.module, self.attribute, *types, self.code or "", (self.body or b"").hex())
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{self.name.lower()}__py{digest}"

    @property
    def signature(self) -> inspect.Signature:
        """The parameters as DuckDB counts them: it looks at the signature of what it will call."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter(f"p{i}", kind) for i in range(len(self.parameters))])

    @property
    def text(self) -> str:
        parameters = ", ".join(str(kind) for kind in self.parameters)
        return f"{self.name}({parameters}) returns {self.returns}, {self.module}:{self.attribute}"


def calls_python(sql: str) -> bool:
    """Returns whether the text of a bound expression calls a function of the app."""
    return _CALL.search(sql) is not None


def own_calls(sql: str) -> list[str]:
    """Returns the names of the app's functions that the text of a bound expression calls."""
    return [found[1] for found in _CALL.finditer(sql)]


def with_own_names(text: str) -> str:
    """Returns the text with the names that users gave their functions."""
    return _CALL.sub(r"\1", text)
