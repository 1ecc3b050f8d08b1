"""Decides who may call: the bearer of the token, or a browser that opened a one-time link.

Invariant: no request is answered without the token or a session, not even on loopback. Tokens are compared in constant
time and never appear in an address or a log. A link works once; a session lasts as long as the server and may only
read, so a foreign page cannot make a browser push.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from pathlib import Path

from starlette.requests import Request

from kigen.links.flight.tokens import secret_in

COOKIE = "kigen_session"
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
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(given.strip().encode(), self._token.encode())
        return request.method in ("GET", "HEAD") and _known(self._sessions, request.cookies.get(COOKIE, ""))


def _known(among: OrderedDict[str, None], given: str) -> bool:
    found = [hmac.compare_digest(given.encode(), known.encode()) for known in among]
    return any(found)


def _remember(among: OrderedDict[str, None], value: str) -> None:
    among[value] = None
    while len(among) > _MOST:
        among.popitem(last=False)
