"""`POST /streams/NAME`: takes a batch into the stream's ingest queue, whole or not at all.

The answer comes when the batch is as durable as the run's results. Work that blocks runs in threads; at most
`Limits.bodies` batches are in memory at once.
"""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kigen.connectors import InputError
from kigen.connectors.pushed import BatchTooLarge, IngestFull, KeyReused, Pushed, PushRefused, UnknownContentType
from kigen.plan.logical import App
from kigen.queue import QueueClosed, QueueError, StorageFailed
from kigen.web.requests import Limits, Refused, read_body
from kigen.web.served import Served

_WAIT_S = 5.0  # for other batches to be done
_RETRY = {"Retry-After": "1"}


class Pushing:
    """The endpoint."""

    def __init__(self, served: Served, limits: Limits) -> None:
        self._served, self._limits = served, limits
        self._bodies = asyncio.Semaphore(limits.bodies)

    async def __call__(self, request: Request) -> Response:
        stream = request.path_params["name"]
        ingest = self._served.ingest
        if ingest is None or stream not in ingest.queues:
            raise Refused(404, _unknown(self._served.app, stream))
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused(415, "a compressed body is not taken: send it without Content-Encoding")
        try:
            await asyncio.wait_for(self._bodies.acquire(), _WAIT_S)
        except TimeoutError as error:
            raise Refused(503, "too many batches at once: try again", _RETRY) from error
        try:
            data = await read_body(request, self._limits)
            content_type = request.headers.get("content-type", "application/x-ndjson")
            key = request.headers.get("idempotency-key")
            done = await run_in_threadpool(_push, self._served, stream, data, content_type, key)
        finally:
            self._bodies.release()
        answer = {"accepted": done.accepted, "skipped": done.skipped, "repeated": done.repeated}
        return JSONResponse(answer | ({"shed": done.shed} if done.shed else {}))


def _push(served: Served, stream: str, data: bytes, content_type: str, key: str | None) -> Pushed:
    assert served.ingest is not None
    try:
        return served.ingest.push_bytes(stream, data, content_type, key)
    except InputError as error:
        raise Refused(400, str(error), row=error.line, field=error.field) from error
    except IngestFull as error:
        raise Refused(429, str(error), {"Retry-After": str(error.retry_s)}) from error
    except BatchTooLarge as error:
        raise Refused(413, str(error)) from error
    except UnknownContentType as error:
        raise Refused(415, str(error)) from error
    except KeyReused as error:
        raise Refused(422, str(error)) from error
    except PushRefused as error:
        raise Refused(400, str(error)) from error
    except QueueClosed as error:
        raise Refused(503, "the run is ending: try again when it is back", _RETRY) from error
    except StorageFailed as error:
        raise Refused(507, str(error)) from error
    except QueueError as error:
        raise Refused(500, str(error)) from error


def _unknown(app: App, name: str) -> str:
    found = next((s for s in app.streams if s.name == name), None)
    if found is not None:
        return f"stream '{name}' comes FROM {found.source.name}: only a stream FROM http () takes tuples here"
    names = ", ".join(s.name for s in app.streams if s.source.name == "http")
    return f"no stream '{name}'; streams FROM http (): {names or 'none'}"
