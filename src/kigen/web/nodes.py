"""The web application of an app on nodes: one address, which hands requests on to the node that they are for.

Each node serves itself on loopback (`kigen node --serve`); this passes requests on to it with the node's own token, and
answers back as they come. Figures are those of all nodes, with the label `node`.

| address | answer |
|---|---|
| `POST /streams/NAME` | that of the node where the stream is born |
| `GET /queries/NAME`, `GET /queries/NAME/changes` | that of the node that gives the results |
| `GET /queries` | the queries of the app |
| `GET /metrics` | the figures of all nodes |
| `GET /health/ready` | 200 if all nodes with work are ready |
| `GET /`, `/health/live`, `/links`, `/tokens/ROLE` | as for one run (`kigen.web.application`) |

Invariant: a request is answered by one node or refused; a batch is never pushed twice here. A node that is being
started again is answered for with 503, and senders try again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kigen.plan.logical import App
from kigen.web import page
from kigen.web.access import Access
from kigen.web.application import Answers, Guarded, failed, refused
from kigen.web.forwarding import Backend, fetched, forwarded
from kigen.web.metrics import CONTENT_TYPE, of_nodes
from kigen.web.requests import Limits, Refused
from kigen.web.server import DEFAULT_ADDRESS, WebServer

_COLUMNS = ("arrived", "out", "waiting", "p95_ms", "deadline_ms", "sdmr")
_FETCH_S = 5.0
_RETRY = {"Retry-After": "1"}


class ServedNodes:
    """What the server knows of the nodes.

    `streams`: stream FROM http -> its node. `queries`: query -> the node that gives its results. `tokens`: the nodes
    that serve, with the file of each one's token.
    """

    def __init__(
        self, app: App, streams: Mapping[str, str], queries: Mapping[str, str], tokens: Mapping[str, Path]
    ) -> None:
        self.app, self.streams, self.queries, self.tokens = app, dict(streams), dict(queries), dict(tokens)
        self._reports: dict[str, Any] = {}

    def tell(self, reports: Mapping[str, Any]) -> None:
        """Takes what the nodes have reported about themselves just now."""
        self._reports = dict(reports)

    @property
    def reports(self) -> dict[str, Any]:
        return {name: about for name, about in self._reports.items() if about is not None}

    def backend(self, node: str) -> Backend:
        """Returns how to reach a node. Raises Refused while it does not serve."""
        address = self.reports.get(node, {}).get("serves")
        try:
            token = self.tokens[node].read_text(encoding="utf-8").strip()
        except OSError:
            address = None
        if not address:
            raise Refused(503, f"node {node} does not answer now: try again", _RETRY)
        return Backend(node, address, token)


def serve_nodes(served: ServedNodes, folder: Path, address: str = DEFAULT_ADDRESS) -> WebServer:
    """Serves an app on nodes. The token is in `folder`."""
    return WebServer(lambda *parts: make_nodes_application(served, *parts), folder, address)


def make_nodes_application(
    served: ServedNodes, access: Access, limits: Limits | None = None, closing: threading.Event | None = None
) -> Guarded:
    """Returns the application of an app on nodes."""
    limits = limits or Limits()
    mine, others = Answers(access), _Nodes(served, limits, closing or threading.Event())
    routes = [
        Route("/", others.page),
        Route("/metrics", others.metrics),
        Route("/health/live", mine.live),
        Route("/health/ready", others.ready),
        Route("/links", mine.link, methods=["POST"]),
        Route("/queries", others.queries),
        Route("/queries/{name}", others.query),
        Route("/queries/{name}/changes", others.query),
        Route("/tokens/{role}", mine.token, methods=["POST"]),
        Route("/app", others.text),
        Route("/app/{action}", others.change, methods=["POST"]),
        Route("/streams/{name}", others.push, methods=["POST"]),
    ]
    handlers = {Refused: refused, HTTPException: failed}
    return Guarded(Starlette(routes=routes, exception_handlers=handlers), access, limits.send_s)


class _Nodes:
    def __init__(self, served: ServedNodes, limits: Limits, closing: threading.Event) -> None:
        self._served, self._limits, self._closing = served, limits, closing

    async def push(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._served.streams:
            there = ", ".join(self._served.streams) or "none"
            raise Refused(404, f"no stream '{name}' takes tuples here; streams FROM http (): {there}")
        return await forwarded(request, self._served.backend(self._served.streams[name]), self._limits, self._closing)

    async def query(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._served.queries:
            there = ", ".join(self._served.queries) or "none"
            raise Refused(404, f"no query '{name}' can be followed; queries: {there}")
        return await forwarded(request, self._served.backend(self._served.queries[name]), self._limits, self._closing)

    async def queries(self, request: Request) -> Response:
        found = [
            {
                "name": q.name,
                "columns": [c.name for c in q.schema],
                "is_stream": q.root.is_stream,
                "node": self._served.queries.get(q.name),
            }
            for q in self._served.app.queries
        ]
        return JSONResponse({"queries": found})

    async def text(self, request: Request) -> Response:
        return JSONResponse({"text": self._served.app.text})

    async def change(self, request: Request) -> Response:
        raise Refused(409, "an app on nodes changes at a start: end 'kigen up', change the app file, and run it again")

    async def ready(self, request: Request) -> Response:
        answers = await asyncio.gather(*(self._of(node, "/health/ready") for node in self._served.tokens))
        waits = [node for node, (status, _) in zip(self._served.tokens, answers, strict=True) if status != 200]
        return JSONResponse({"ready": not waits, "waits_for": waits}, 503 if waits else 200)

    async def metrics(self, request: Request) -> Response:
        answers = await asyncio.gather(*(self._of(node, "/metrics") for node in self._served.tokens))
        texts = {node: body for node, (status, body) in zip(self._served.tokens, answers, strict=True) if status == 200}
        return PlainTextResponse(of_nodes(texts), media_type=CONTENT_TYPE)

    async def _of(self, node: str, path: str) -> tuple[int, str]:
        """Returns the status and the text that a node answers; 503 if it does not."""
        try:
            async with asyncio.timeout(_FETCH_S):
                return await fetched(self._served.backend(node), path)
        except (Refused, TimeoutError):
            return 503, ""

    async def page(self, request: Request) -> Response:
        rows = [
            [query, node, *(found[key] for key in _COLUMNS)]
            for node, about in self._served.reports.items()
            for query, found in about["queries"].items()
            if not found["sent"]
        ]
        states = [[node, about["state"]] for node, about in self._served.reports.items()]
        head = ["query", "node", "in", "out", "waiting", "p95 ms", "deadline ms", "SDMR"]
        body = page.table(["node", "state"], states) + page.table(head, rows)
        return HTMLResponse(page.whole("", body), headers=page.HEADERS)
