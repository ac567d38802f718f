"""Mirrors that say nonsense or never end: the next one is tried, and all reasons are given."""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from squircuit.data import download, load, registry
from squircuit.data.download import RemoteFile, data_folder, fetch
from squircuit.errors import DataError, ParameterError, SquircuitError

CONTENT = b"0,1\n1,1\n"


class Mirror(BaseHTTPRequestHandler):
    """Answers by the path that is asked for."""

    def do_GET(self):
        self.send_response(302 if self.path == "/elsewhere" else 200)
        headers = {
            "/words": {"Content-Length": "abc"},
            "/negative": {"Content-Length": "-5"},
            "/digits": {"Content-Length": "9" * 5000},
            "/huge": {"Content-Length": str(10**12)},
            "/short": {"Content-Length": "100"},
            "/elsewhere": {"Location": "http://[half/of/an/address"},
        }
        for name, value in headers.get(self.path, {}).items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if self.path == "/bomb":
                self.wfile.write(gzip.compress(bytes(2**27)))
            elif self.path == "/endless":
                while True:
                    self.wfile.write(bytes(2**16))
            elif self.path == "/slow":
                for _ in range(100):
                    self.wfile.write(b"0")
                    self.wfile.flush()
                    time.sleep(0.05)
            else:
                self.wfile.write(CONTENT)
        except OSError:
            pass  # the other side has had enough

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def mirror():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def remote(*urls):
    return RemoteFile("debd/small.gz", hashlib.sha256(CONTENT).hexdigest(), urls)


@pytest.mark.parametrize("path", ["/words", "/negative", "/plain"])
def test_a_length_that_is_no_number_is_unknown(mirror, tmp_path, path):
    seen = []
    assert fetch([remote(mirror + path)], tmp_path, lambda *now: seen.append(now)) == [CONTENT]
    assert seen[-1] == ("small.gz", len(CONTENT), 0)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/huge", "1,000,000,000,000 bytes, 268,435,456 are the most"),
        ("/short", "it ended after 8 of 100 bytes"),
        ("/endless", "bytes, 1,000,000 are the most"),
        ("/slow", "not done after 0.3 seconds"),
        ("/elsewhere", ""),
        ("/bomb", "become more than"),
    ],
)
def test_a_mirror_that_goes_too_far_is_given_up_and_the_next_is_tried(
    mirror, tmp_path, monkeypatch, path, words
):
    if path == "/endless":
        monkeypatch.setattr(download, "MOST_BYTES", 10**6)
    if path == "/slow":
        monkeypatch.setattr(download, "MOST_SECONDS", 0.3)
    with pytest.raises(DataError, match=r"cannot download small\.gz") as caught:
        fetch([remote(mirror + path)], tmp_path)
    message = str(caught.value)
    assert words in message
    assert message.count("Fix: ") == 1
    assert "\n" not in message
    assert not list(tmp_path.iterdir())
    assert fetch([remote(mirror + path, mirror + "/plain")], tmp_path) == [CONTENT]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no address",
        "http://",
        "http://[::1",
        "http://a:b/",
        "http://exa mple/",
        "nowhere://x",
        "http://\n/",
        "ä",
    ],
)
def test_an_address_that_is_none_is_one_error(tmp_path, url):
    with pytest.raises(DataError, match=r"cannot download small\.gz .*Fix: "):
        fetch([remote(url)], tmp_path)


def test_every_mirror_is_reached_over_https():
    urls = [url for files in registry.FILES.values() for file in files for url in file.urls]
    assert urls
    assert all(url.startswith("https://") for url in urls)


def test_a_folder_that_cannot_be_made_is_one_error(mirror, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(SquircuitError, match="Fix: "):
            fetch([remote(mirror + "/plain")], folder)


def test_a_user_without_a_home_is_told_to_name_a_folder(monkeypatch):
    monkeypatch.delenv("SQUIRCUIT_DATA", raising=False)
    with pytest.raises(ParameterError, match=r"is no folder.*set SQUIRCUIT_DATA"):
        data_folder("~no_such_user_here/data")
    with pytest.raises(ParameterError, match="is no folder"):
        load("nltcs", 3)
