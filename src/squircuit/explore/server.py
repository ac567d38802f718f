"""Listens on this machine alone until Ctrl-C."""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from squircuit.data.download import data_folder
from squircuit.errors import ParameterError
from squircuit.explore.app import application
from squircuit.explore.guard import Guard
from squircuit.explore.shelf import Shelf
from squircuit.explore.worker import Worker
from squircuit.storage.words import one_line

HOST, PORT = "127.0.0.1", 8412
"""Where the page is; the port, if it is free."""
PATIENCE = 1
"""Seconds that answers have to end after Ctrl-C."""
REASONS = {
    errno.EADDRINUSE: "another program listens there, maybe this one in another window",
    errno.EACCES: "not allowed to you, as those below 1024 often are",
}
NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
TOKEN = re.compile(r"[\w-]{22}")


def serve(shelf: Shelf, port: int | None, opens: bool, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C, and return.

    Args:
        shelf: the models.
        port: to listen on; 0: any that is free; None: the usual one, or any.
        opens: the page in the user's browser.
        say: is told the address.
    """
    with listening(port) as listener, suppress(KeyboardInterrupt):
        token, chosen, worker = kept_token(), listener.getsockname()[1], Worker()
        say(address := f"http://{HOST}:{chosen}/{token}/")
        if opens:
            webbrowser.open(address)  # the socket listens already
        try:
            program(Guard(application(shelf, worker), token, chosen)).run(sockets=[listener])
        finally:
            worker.close()


def program(app: Guard) -> uvicorn.Server:
    """What answers on sockets that it is given."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    return uvicorn.Server(config)


def listening(port: int | None) -> socket.socket:
    """A socket of this machine alone."""
    if port is None:
        with suppress(OSError):
            return socket.create_server((HOST, PORT))
        return socket.create_server((HOST, 0))
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = REASONS.get(error.errno or 0, one_line(error))
        raise ParameterError(f"--port {port}: {reason}. Fix: another port, or leave it out.") from error


def kept_token() -> str:
    """The user's own, in a file that nobody else can read; so addresses hold when the program starts again.

    A new one, where there is no such file and none can be written.
    """
    file, fresh = data_folder() / "explore" / "token", secrets.token_urlsafe(16)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), os.fdopen(os.open(file, NEW, 0o600), "w") as stream:
            stream.write(fresh)
        kept = file.read_text()
        if TOKEN.fullmatch(kept) and not file.stat().st_mode & 0o077:
            return kept
    return fresh
