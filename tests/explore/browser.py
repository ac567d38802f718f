"""The system's Chromium, and a page of some models that can be ended and started again."""

import shutil
import threading

from squircuit.explore.app import application
from squircuit.explore.guard import Guard
from squircuit.explore.server import listening, program
from squircuit.explore.worker import Worker

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
TOKEN = "token-of-the-browser-tests"


class Program:
    """The page as `squircuit explore` serves it, in a thread.

    Args:
        shelf: on show.
        port: 0: any that is free.
    """

    def __init__(self, shelf, port=0):
        self.listener, self.worker = listening(port), Worker()
        self.port = self.listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/{TOKEN}/"
        self.server = program(Guard(application(shelf, self.worker), TOKEN, self.port))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listener]})
        self.thread.start()

    def end(self):
        self.server.should_exit = True
        self.thread.join(10)
        self.listener.close()
        self.worker.close()
