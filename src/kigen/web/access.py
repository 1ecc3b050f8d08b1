"""Decides who may call: the bearer of the token, or a browser that opened a one-time link.

Invariant: no request is answered without the token or a session, not even on loopback. Tokens are compared in constant
time and never appear in an address or a log. A link works once; a session lasts as long as the server and may only
read, so a foreign page cannot make a browser push.

The token itself may do everything. A token of a role is derived from it and may do less:

| role | may |
|---|---|
| `reader` | GET everything |
| `producer` | push: POST /streams/NAME; and GET /health |
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from pathlib import Path

from starlette.requests import Request

from kigen.links.flight.tokens import PRODUCER, READER, secret_in, token_of

COOKIE = "kigen_session"
ROLES = (READER, PRODUCER)
_MOST = 64  # links, and sessions, that are known at once


class Access:
    """Token, one-time links and sessions of one server."""

    def __init__(self, folder: Path) -> None:
        """Reads the token in `folder`, or makes one (mode 0600)."""
        self._token = secret_in(folder)
        self.token_file = folder / "token"
        self._links: OrderedDict[str, None] = OrderedDict()
        self._sessions: OrderedDict[str, None] = OrderedDict()

    def new_link(self) -> str:
        """Returns the query string of a link that opens the page once."""
        link = secrets.token_urlsafe(24)
        _remember(self._links, link)
        return f"open={link}"

    def redeem(self, link: str) -> str | None:
        """Returns a new session for a link that was not used yet."""
        if not _known(self._links, link):
            return None
        self._links.pop(link, None)
        session = secrets.token_urlsafe(24)
        _remember(self._sessions, session)
        return session

    def allows(self, request: Request) -> bool:
        given = _bearer(request)
        reads = request.method in ("GET", "HEAD")
        if given is None:
            return reads and _known(self._sessions, request.cookies.get(COOKIE, ""))
        role = self.role(request)
        if role == PRODUCER:
            path: str = request.scope["path"]  # request.url would be made from the header Host, too
            return path.startswith("/health/" if reads else "/streams/")
        return (role == READER and reads) or hmac.compare_digest(given.encode(), self._token.encode())

    def role(self, request: Request) -> str | None:
        """Returns the role of the token that a request carries; None if it carries none, or the token itself."""
        given = _bearer(request) or ""
        known = [role for role in ROLES if hmac.compare_digest(given.encode(), self.token_for(role).encode())]
        return known[0] if known else None

    def token_for(self, role: str) -> str:
        """Returns the token of a role."""
        return f"{role}:{token_of(self._token, f'http {role}')}"


def _bearer(request: Request) -> str | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _known(among: OrderedDict[str, None], given: str) -> bool:
    found = [hmac.compare_digest(given.encode(), known.encode()) for known in among]
    return any(found)


def _remember(among: OrderedDict[str, None], value: str) -> None:
    among[value] = None
    while len(among) > _MOST:
        among.popitem(last=False)
