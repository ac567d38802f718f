"""Who is answered: the page that the program opened, and nobody else."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple, final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RATE, BURST = 60.0, 300.0
"""Requests a second in the long run, and at once."""
FIX = "Fix: open the address that the program printed."
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Of every answer: the page loads nothing from elsewhere, and no other page may hold it."""


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    reason: str


@final
class Guard:
    """Hands on requests that know the token, ask for this host, and come from no other page.

    A page on the internet can make a browser ask 127.0.0.1, under a name of its own (then `Host` is wrong) or
    from its own address (then `Origin` is); it knows no token in any case.

    Args:
        app: what is guarded; it sees paths without the token.
        token: with which every path begins.
        port: on which the program listens.
        clock: seconds.
    """

    def __init__(
        self, app: ASGIApp, token: str, port: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self._bucket = Bucket(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"a connection of the type {scope['type']!r}. Fix: ask by HTTP.")
        token, slash, path = scope["path"].removeprefix("/").partition("/")
        refusal = self._refusal(scope, token + slash)
        if refusal is None:
            await self._app({**scope, "path": f"/{path}"}, receive, _with_headers(send))
        else:
            answer = JSONResponse({"error": refusal.reason}, refusal.status)
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, token: str) -> Refusal | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        if headers.get("host") not in self._hosts:
            return Refusal(403, f"asked for another host. {FIX}")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return Refusal(403, f"asked by another page. {FIX}")
        if not secrets.compare_digest(token.encode(), f"{self._token}/".encode()):
            return Refusal(403, f"the address lacks its token. {FIX}")
        if not self._bucket.take():
            return Refusal(429, f"more than {RATE:g} requests a second. Fix: ask again in a moment.")
        return None


class Bucket:
    """Lets so many requests a second through, and so many more at once after a pause.

    Example:
        >>> now = [0.0]
        >>> bucket = Bucket(lambda: now[0])
        >>> sum(bucket.take() for _ in range(1000)) == BURST
        True
        >>> now[0] = 1.0
        >>> sum(bucket.take() for _ in range(1000)) == RATE
        True
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._left, self._last = clock, BURST, clock()

    def take(self) -> bool:
        """Whether one more may pass."""
        now = self._clock()
        self._left = min(BURST, self._left + RATE * (now - self._last))
        self._last = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _with_headers(send: Send) -> Callable[[MutableMapping[str, Any]], Any]:
    fixed = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *fixed]}
        await send(message)

    return sent
