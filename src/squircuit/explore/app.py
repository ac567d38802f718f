"""The addresses of the page: its files, its questions, how far the answers are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from squircuit.errors import SquircuitError, in_shell, printable
from squircuit.explore import exhibit as exhibits
from squircuit.explore import images, tables
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.fields import Question, plain
from squircuit.explore.shelf import Shelf
from squircuit.explore.worker import BusyError, Replaced, Worker
from squircuit.storage.documents import parsed

MOST_BYTES = 2**20
"""Of a question: the pixels of a large image."""
LONGEST_PAGE = 64
REPLACED, TOO_LARGE, NO_JSON, WRONG, UNEXPECTED, BUSY = 409, 413, 415, 422, 500, 503
"""Codes of answers that are none."""

QUESTIONS: Mapping[str, Callable[[Exhibit, Question], dict[str, Any]]] = {
    "model": exhibits.described,
    "properties": exhibits.properties,
    "drawing": exhibits.drawing,
    "completions": images.completions,
    "likelihood": images.likelihood,
    "spread": images.spread,
    "distributions": tables.distributions,
    "samples": tables.samples,
    "score": tables.score,
    "pair": tables.pair,
}
"""What a page may ask, by the last part of the address."""

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class RefusedError(Exception):
    """A request that is no question: its code and a line."""


def application(shelf: Shelf, worker: Worker) -> Starlette:
    """All addresses, without the token, see :mod:`squircuit.explore.guard`.

    Args:
        shelf: the models that are asked.
        worker: which answers.
    """

    async def ask(request: Request) -> Response:
        return await _asked(request, shelf, worker)

    async def progress(request: Request) -> Response:
        return JSONResponse(worker.progress(request.path_params["page"]))

    async def cancel(request: Request) -> Response:
        worker.cancel(request.path_params["page"])
        return JSONResponse({})

    return Starlette(
        routes=[
            *(Route(path, partial(_file, content=content)) for path, content in packaged().items()),
            Route("/ask/{kind}", ask, methods=["POST"]),
            Route("/progress/{page}", progress),
            Route("/cancel/{page}", cancel, methods=["POST"]),
        ]
    )


def packaged() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their address, with their types; nothing else of the disk is ever read."""
    found = {
        f"/{file.name}": (file.read_bytes(), TYPES["." + file.name.rpartition(".")[2]])
        for file in files("squircuit.explore").joinpath("static").iterdir()
    }
    return found | {"/": found["/index.html"]}


async def _file(request: Request, content: tuple[bytes, str]) -> Response:
    body, kind = content
    return Response(body, media_type=kind)


async def _asked(request: Request, shelf: Shelf, worker: Worker) -> Response:
    """The answer to a question, or a line that says why there is none."""
    kind = request.path_params["kind"]
    try:
        question = await _question(request)
        if kind == "shelf":
            return JSONResponse(shelf.listed())
        if kind not in QUESTIONS:
            raise RefusedError(404, f"no such question. Fix: one of {', '.join(QUESTIONS)}.")
        page = question.get("page")
        if not (page is None or (isinstance(page, str) and 0 < len(page) <= LONGEST_PAGE)):
            raise RefusedError(WRONG, f"page: no text of 1 to {LONGEST_PAGE} characters. Fix: pass one.")
        slot = None if page is None else (page, kind)
        answer = worker.ask(slot, lambda: plain(QUESTIONS[kind](shelf.chosen(question), question)))
        return JSONResponse(await asyncio.wrap_future(answer))
    except RefusedError as refused:
        return _error(*refused.args)
    except Replaced:
        return _error(REPLACED, "a newer question has replaced this one")
    except BusyError as error:
        return _error(BUSY, str(error))
    except SquircuitError as error:
        return _error(WRONG, in_shell(error))
    except Exception as error:
        said = f"{type(error).__name__}: {printable(error)}"
        return _error(UNEXPECTED, f"{said}, which should not happen. Fix: please report it.")


async def _question(request: Request) -> Question:
    """The JSON object that was sent, of limited size."""
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind != "application/json":  # which no form of another page can send
        raise RefusedError(NO_JSON, "no JSON. Fix: send it with the type application/json.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise RefusedError(TOO_LARGE, f"more than {MOST_BYTES:,} bytes. Fix: ask for less.")
    question = parsed(body, "question", "send a JSON object")
    if not isinstance(question, dict):
        raise RefusedError(WRONG, "question: no JSON object. Fix: send one.")
    return question


def _error(status: int, reason: str) -> Response:
    body = json.dumps({"error": reason}, ensure_ascii=False)
    return Response(body, status, media_type="application/json")
