"""Listens on this machine alone until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from squircuit.errors import ParameterError
from squircuit.explore.app import application
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.guard import Guard
from squircuit.explore.worker import Worker
from squircuit.storage.words import one_line

HOST = "127.0.0.1"
PATIENCE = 1
"""Seconds that answers have to end after Ctrl-C."""


def serve(exhibit: Exhibit, port: int, opens: bool, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C, and return.

    Args:
        exhibit: the model.
        port: to listen on; 0: any that is free.
        opens: the page in the user's browser.
        say: is told the address.
    """
    with _listening(port) as listener, suppress(KeyboardInterrupt):
        token, chosen = secrets.token_urlsafe(16), listener.getsockname()[1]
        address, worker = f"http://{HOST}:{chosen}/{token}/", Worker()
        config = uvicorn.Config(
            Guard(application(exhibit, worker), token, chosen),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=PATIENCE,
        )
        say(address)
        if opens:
            webbrowser.open(address)  # the socket listens already
        try:
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            worker.close()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ParameterError(
            f"--port {port}: {one_line(error)}. Fix: another port, or leave it out."
        ) from error
