"""What stands in front of the application: sizes and times of bodies, other sites, headers of answers, counting."""

import asyncio
import json
import time
from collections.abc import Container
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastmos.serve.limits import Limits, Refusal
from fastmos.serve.metrics import Metrics

BODY_SECONDS = 10.0  # in which a request's body has to arrive
HELD = 250_000_000  # bytes of bodies that arrive at the same time
DRAINED = 32_000_000  # bytes of a body that are read and thrown away, so that the client hears why it is refused
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


class Guard:
    """An ASGI application around another. Bodies are read completely, into memory, before the inner one is called."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, paths: Container[str]) -> None:
        self.app, self.limits, self.metrics, self.paths = app, limits, metrics, paths
        self._held = 0  # bytes of bodies that are arriving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                have = {name for name, _ in message["headers"]}
                own = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in have)]
            await send(message)

        try:
            _check_site(scope)
            body = await self._body(scope, receive)
        except Refusal as refusal:
            await _refuse(answer, refusal)
        except ConnectionError:
            self.metrics.left()
            return
        else:
            await self.app(scope, _replay(body, receive), answer)
        finally:
            if status:
                path = scope["path"] if scope["path"] in self.paths else "other"
                self.metrics.answered(path, status, time.perf_counter() - begin)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self.limits.body_bytes(scope["path"])
        too_large = Refusal(413, f"the body of the request is larger than {limit:,} bytes; send less at once")
        given = dict(scope["headers"]).get(b"content-length", b"0")
        if given.isdigit() and int(given) > max(DRAINED, limit):
            raise too_large
        body, size, more = bytearray(), 0, True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more and size <= max(DRAINED, limit):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    size += len(message.get("body", b""))
                    if size <= limit:
                        self._hold(len(message.get("body", b"")))
                        body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {BODY_SECONDS:.0f} seconds; send it again") from None
        finally:
            self._held -= len(body)
        if size > limit:
            raise too_large
        return bytes(body)

    def _hold(self, size: int) -> None:
        """Bodies that have not arrived completely share so much memory."""
        if self._held + size > HELD:
            raise Refusal(503, "too many large requests arrive at once; try again in a moment")
        self._held += size


def _check_site(scope: Scope) -> None:
    """Pages of other sites may not let a visitor's browser work for them."""
    if scope["method"] == "POST" and dict(scope["headers"]).get(b"sec-fetch-site") == b"cross-site":
        raise Refusal(403, "pages of other sites may not use this server; open its own page")


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body at once, then whatever comes: only that the client leaves."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, refusal: Refusal) -> None:
    """Answer without the application; the connection ends, since the rest of the body may still come."""
    body = json.dumps({"error": refusal.sentence}).encode()
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
