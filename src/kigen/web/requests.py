"""Reads request bodies within limits, and writes errors as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse


@dataclass(frozen=True)
class Limits:
    """Bounds of a server."""

    body_bytes: int = 16 << 20
    body_s: float = 30.0  # from the head of a request to the end of its body
    bodies: int = 16  # read and decoded at once
    connections: int = 256
    head_s: float = 10.0  # until the head of a request is complete
    send_s: float = 30.0  # for a client to take a piece of its answer
    followers: int = 64  # readers of changes at once


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **about: object) -> None:
        super().__init__(status, message)
        self.status, self.message, self.headers, self.about = status, message, dict(headers or {}), about

    def response(self) -> JSONResponse:
        return JSONResponse({"error": self.message, **self.about}, self.status, self.headers)


async def read_body(request: Request, limits: Limits) -> bytes:
    """Returns the body. Raises Refused if it is too long, comes too slowly or breaks off."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limits.body_bytes:
        raise _too_large(limits)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(limits.body_s):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                parts.append(part)
    except TimeoutError as error:
        raise Refused(408, f"the body took longer than {limits.body_s:g} s", {"Connection": "close"}) from error
    except ClientDisconnect as error:
        raise Refused(400, "the body breaks off", {"Connection": "close"}) from error
    return b"".join(parts)


def _too_large(limits: Limits) -> Refused:
    message = f"a batch has at most {limits.body_bytes:,} bytes: send smaller batches"
    return Refused(413, message, {"Connection": "close"})
