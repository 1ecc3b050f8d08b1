"""The web application of a run: its routes, and the check that stands before all of them.

| address | answer |
|---|---|
| `GET /` | the page |
| `POST /streams/NAME` | takes a batch of tuples |
| `GET /queries` | the names of queries and their columns |
| `GET /queries/NAME` | the relation now |
| `GET /queries/NAME/changes` | server-sent events |
| `GET /metrics` | Prometheus text |
| `GET /health/live`, `GET /health/ready` | 200, or 503 while the streams do not flow |
| `POST /links` | a new one-time link to the page |
| `POST /tokens/ROLE` | a token that may do less than this one |
| `GET /app` | the text of the app |
| `POST /app/add`, `/app/drop`, `/app/change`, `/app/save` | changes the app, or saves it |
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from kigen.web import page
from kigen.web.access import COOKIE, ROLES, Access
from kigen.web.changing import Changing
from kigen.web.following import Following
from kigen.web.metrics import CONTENT_TYPE, prometheus_text
from kigen.web.pushing import Pushing
from kigen.web.requests import Limits, Refused
from kigen.web.served import Served

_DENIED = Refused(
    401, "a token is required: send 'Authorization: Bearer TOKEN'", {"WWW-Authenticate": 'Bearer realm="kigen"'}
)


class Guarded:
    """Passes requests on that may be answered, and refuses all others."""

    def __init__(self, inner: Starlette, access: Access, send_s: float) -> None:
        self._inner, self._access, self._send_s = inner, access, send_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._send_s):
                await send(message)

        with suppress(TimeoutError):  # a client that does not take its answer loses the connection
            await self._answer(scope, receive, send_in_time)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        link = request.query_params.get("open")
        if scope["path"] == "/" and request.method == "GET" and link is not None:
            await self._open(link)(scope, receive, send)
        elif self._access.allows(request):
            await self._inner(scope, receive, send)
        elif (role := self._access.role(request)) is not None:
            message = f"a token of the role '{role}' may not {request.method} {scope['path']}"
            await Refused(403, message).response()(scope, receive, send)
        else:
            await _DENIED.response()(scope, receive, send)

    def _open(self, link: str) -> Response:
        session = self._access.redeem(link)
        if session is None:
            return Refused(401, "this link was used before, or is not known: ask for a new one").response()
        answer = RedirectResponse("/", 303, page.HEADERS)
        answer.set_cookie(COOKIE, session, httponly=True, samesite="strict")
        return answer


def make_application(
    served: Served, access: Access, limits: Limits | None = None, closing: threading.Event | None = None
) -> Guarded:
    """Returns the application of a run. `closing` ends streams of changes."""
    limits = limits or Limits()
    following = Following(served, limits, closing or threading.Event())
    answers, changing = _Answers(served, access), Changing(served, limits)
    routes = [
        Route("/", answers.page),
        Route("/metrics", answers.metrics),
        Route("/health/live", answers.live),
        Route("/health/ready", answers.ready),
        Route("/links", answers.link, methods=["POST"]),
        Route("/queries", following.queries),
        Route("/queries/{name}", following.relation),
        Route("/queries/{name}/changes", following.changes),
        Route("/tokens/{role}", answers.token, methods=["POST"]),
        Route("/app", changing.show),
        Route("/app/{action}", changing.change, methods=["POST"]),
        Route("/streams/{name}", _endpoint(Pushing(served, limits)), methods=["POST"]),
    ]
    handlers = {Refused: refused, HTTPException: failed}
    return Guarded(Starlette(routes=routes, exception_handlers=handlers), access, limits.send_s)


class Answers:
    """Answers that are the same whatever is served."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def token(self, request: Request) -> Response:
        role = request.path_params["role"]
        if role not in ROLES:
            raise Refused(404, f"there is no role '{role}': use one of {', '.join(ROLES)}")
        return JSONResponse({"token": self._access.token_for(role)}, 201)

    async def link(self, request: Request) -> Response:
        return JSONResponse({"path": f"/?{self._access.new_link()}"}, 201)


class _Answers(Answers):
    def __init__(self, served: Served, access: Access) -> None:
        super().__init__(access)
        self._served = served

    async def page(self, request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(page.page_of, self._served), headers=page.HEADERS)

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(await run_in_threadpool(prometheus_text, self._served), media_type=CONTENT_TYPE)

    async def ready(self, request: Request) -> Response:
        flows = await run_in_threadpool(lambda: self._served.flows)
        return JSONResponse({"ready": flows}, 200 if flows else 503)


def _endpoint(call: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await call(request)

    return answer


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response()


async def failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
