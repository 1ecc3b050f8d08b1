"""Checks the token of every call before Flight makes it, and gives the call its role."""

from __future__ import annotations

from typing import Any

import pyarrow.flight as fl

from kigen.links.flight.tokens import role_of

ROLE = "role"  # name of the middleware that holds the caller's role


class TokenCheck(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow counts as untyped
    """Refuses a call without a valid token, and remembers the caller's role."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Any:
        role = role_of(self._secret, str(headers.get("authorization", [""])[0]))
        if role is None:
            raise fl.FlightUnauthenticatedError("the token is missing or wrong")
        return _Caller(role)


class _Caller(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow counts as untyped
    def __init__(self, role: str) -> None:
        self.role = role


def role_of_call(context: Any) -> str:
    """Returns the role that the caller proved."""
    return str(context.get_middleware(ROLE).role)
