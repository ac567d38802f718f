"""Nobody but the page is answered, however many ask at once; nothing of the disk is read."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from squircuit.explore.app import MOST_BYTES, QUESTIONS
from squircuit.explore.guard import BURST, HEADERS, Guard
from squircuit.explore.worker import Replaced, Worker
from squircuit.progress import steps

from .conftest import ADDRESS, PORT, TOKEN, asked, page_of

pytestmark = pytest.mark.parametrize("page", ["image_model"], indirect=True)
on_page = pytest.mark.parametrize("path", ["", "main.js", "style.css"])


@on_page
def test_the_page_is_served_with_its_token_and_may_load_nothing_from_elsewhere(page, path):
    done = page.get(f"/{TOKEN}/{path}")
    assert done.status_code == 200
    assert done.text
    for name, value in HEADERS.items():
        assert done.headers[name] == value
    assert "https://" not in done.text


@on_page
@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("", {}),
        ("another", {}),
        ("thé", {}),
        (TOKEN, {"Host": "evil.example"}),
        (TOKEN, {"Host": f"evil.example:{PORT}"}),
        (TOKEN, {"Host": "127.0.0.1:1"}),
        (TOKEN, {"Host": "127.0.0.1"}),
        (TOKEN, {"Origin": "http://evil.example"}),
        (TOKEN, {"Origin": "null"}),
        (TOKEN, {"Origin": f"https://127.0.0.1:{PORT}"}),
        (TOKEN, {"Origin": "http://127.0.0.1:1"}),
    ],
)
def test_other_tokens_hosts_and_origins_are_refused(page, token, headers, path):
    done = page.get(f"/{token}/{path}" if token else f"/{path}", headers=headers)
    assert done.status_code == 403
    assert "Fix: open the address" in done.json()["error"]
    assert TOKEN not in done.text


def test_its_own_origin_and_the_name_localhost_are_welcome(page):
    for host in ("127.0.0.1", "localhost"):
        own = {"Host": f"{host}:{PORT}", "Origin": f"http://{host}:{PORT}"}
        assert page.get(f"/{TOKEN}/", headers=own).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "/etc/passwd",
        "//etc/passwd",
        "static/main.js",
        "model.safetensors",
        "main.js/../../guard.py",
    ],
)
def test_no_other_file_can_be_read(page, path):
    done = page.get(f"{ADDRESS}/{TOKEN}/{path}")
    assert done.status_code in (403, 404)
    assert "import" not in done.text
    assert "root:" not in done.text


def test_questions_are_json_objects_of_limited_size(page):
    def code(**sent):
        return page.post(f"/{TOKEN}/ask/likelihood", **sent).status_code

    kind = {"Content-Type": "application/json"}
    assert code(content=b"x=1", headers={"Content-Type": "application/x-www-form-urlencoded"}) == 415
    assert code(content=b"x=1", headers={"Content-Type": "text/plain"}) == 415
    assert code(content=b"{", headers=kind) == 422
    assert code(content=b"[" * 10_000, headers=kind) == 422
    assert code(content=b"[1]", headers=kind) == 422
    assert code(content=b'"' + b"x" * MOST_BYTES + b'"', headers=kind) == 413
    assert code(json={"page": "x" * 65}) == 422
    assert page.get(f"/{TOKEN}/ask/likelihood").status_code == 405
    assert page.post(f"/{TOKEN}/ask/secrets", json={}).status_code == 404


def test_who_asks_too_often_is_told_to_wait(page, image_model):
    now = [0.0]
    guarded = TestClient(Guard(PlainTextResponse("here"), TOKEN, PORT, lambda: now[0]), base_url=ADDRESS)
    codes = [guarded.get(f"/{TOKEN}/").status_code for _ in range(int(BURST) + 3)]
    assert codes == [200] * int(BURST) + [429] * 3
    now[0] = 1.0
    assert guarded.get(f"/{TOKEN}/").status_code == 200


def test_a_hundred_questions_at_once_get_each_its_own_answer(page, image_model):
    def question(number):
        return [number % 3, number // 3 % 3, number // 9 % 3, None, None, number // 27 % 3]

    def answer(number):
        return asked(page, "likelihood", pixels=question(number))["log_prob"]

    with ThreadPoolExecutor(100) as pool:
        found = list(pool.map(answer, range(100)))
    for number, log_prob in enumerate(found):
        pixels = question(number)
        gaps = [value is None for value in pixels]
        own = image_model.log_prob([[value or 0 for value in pixels]], gaps).item()
        assert log_prob == pytest.approx(own, abs=1e-5)


def test_the_newest_question_of_a_page_ends_older_ones_at_their_next_step(page, monkeypatch):
    begun, counted = threading.Event(), []

    def slow(exhibit, question):
        for step in steps(range(1000), [1.0] * 1000):
            begun.set()
            counted.append(step)
            time.sleep(0.005)
        return {}

    monkeypatch.setitem(QUESTIONS, "slow", slow)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(asked, page, "slow", 409, page="p")
        assert begun.wait(5)
        while not (progress := page.get(f"/{TOKEN}/progress/p").json().get("slow")):
            time.sleep(0.005)
        assert 0 < progress < 1
        assert page.get(f"/{TOKEN}/progress/other").json() == {}
        second = pool.submit(asked, page, "slow", 409, page="p")
        assert "newer question" in first.result(5)["error"]
        while page.get(f"/{TOKEN}/progress/p").json().get("slow") is None:
            time.sleep(0.005)
        page.post(f"/{TOKEN}/cancel/p")
        second.result(5)
    assert len(counted) < 1000
    assert asked(page, "likelihood", pixels=[None] * 6)["log_prob"] == pytest.approx(0, abs=1e-4)


def test_what_nobody_foresaw_is_one_line_and_the_next_question_is_answered(page, monkeypatch):
    def broken(exhibit, question):
        raise RuntimeError("two\nlines")

    monkeypatch.setitem(QUESTIONS, "broken", broken)
    error = asked(page, "broken", 500)["error"]
    assert error == "RuntimeError: two lines, which should not happen. Fix: please report it."
    assert asked(page, "likelihood", pixels=[None] * 6)


def test_a_closed_worker_leaves_nobody_waiting(page):
    worker, go = Worker(), threading.Event()
    running, waiting = worker.ask(None, go.wait), worker.ask(None, lambda: 1)
    worker.close()
    for answer in (running, waiting):
        assert isinstance(answer.exception(timeout=5), Replaced)
    go.set()


def test_pages_of_two_models_know_only_their_own(page, table_model):
    other = page_of(table_model)
    assert asked(page, "model")["kind"] == "image"
    assert asked(other, "model")["kind"] == "table"
    other.worker.close()
