"""Small models on show, and a page that asks as the one in the browser does."""

import datetime as dt
from itertools import product

import pytest
import torch

pytest.importorskip("starlette", reason="the page needs squircuit[explore]")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from starlette.testclient import TestClient

import squircuit as sq
from squircuit.cli.reading import schema_of
from squircuit.explore.app import application
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.guard import Guard
from squircuit.explore.shelf import Shelf
from squircuit.explore.worker import Worker

PORT, TOKEN = 8123, "the-token"
ADDRESS = f"http://127.0.0.1:{PORT}"


def people(n=200):
    """Columns of three categories, a count and a number that hang together, and one category at odds."""
    draw = torch.Generator().manual_seed(0)
    group = torch.randint(3, (n,), generator=draw)
    return {
        "group": [("a", "b", "c")[g] for g in group.tolist()],
        "children": (group + torch.randint(3, (n,), generator=draw)).tolist(),
        "height": (1.6 + 0.1 * group + 0.05 * torch.randn(n, generator=draw)).double().numpy(),
        "sex": [("f", "m")[s] for s in torch.randint(2, (n,), generator=draw).tolist()],
    }


@pytest.fixture(scope="session")
def table_model():
    frame = people()
    model = sq.table_model(frame, units=2, size=6, seed=0)
    sq.fit(model, sq.data.table(frame), epochs=3, progress=False)
    return model.eval().requires_grad_(False)


def days(n=300):
    """Dates of one year as a file has them, and whether the office is open, on weekdays."""
    draw = torch.Generator().manual_seed(0)
    found = [
        dt.date(2024, 1, 1) + dt.timedelta(days=d) for d in torch.randint(366, (n,), generator=draw).tolist()
    ]
    return {
        "day": [f"{day:%d.%m.%Y}" for day in found],
        "open": ["yes" if day.weekday() < 5 else "no" for day in found],
    }


@pytest.fixture(scope="session")
def date_model():
    """The variables are day.month, day.weekday, day.week_of_4, day.week_of_5 and open."""
    frame = days()
    model = sq.table_model(frame, units=4, size=6, seed=0)
    sq.fit(model, sq.data.table(frame), epochs=20, progress=False)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def image_model():
    return sq.image_model((2, 3), units=2, levels=3, seed=1).eval().requires_grad_(False)


@pytest.fixture(scope="session")
def mixture():
    parts = [sq.image_model((2, 3), units=2, levels=3, seed=seed) for seed in (1, 2)]
    model = sq.mixture(parts, [0.25, 0.75]).eval().requires_grad_(False)
    model.notes = {"classes": ["first", "second"]}
    return model


def page_of(model, guard=None):
    """A client of the page of a model, which is closed after the test."""
    worker = Worker()
    exhibit = Exhibit(model, schema_of(model), "model.safetensors")
    app = guard or Guard(application(Shelf.of(exhibit), worker), TOKEN, PORT)
    client = TestClient(app, base_url=ADDRESS)
    client.worker = worker
    return client


@pytest.fixture
def page(request):
    """The page of the model whose fixture the test names: `@pytest.mark.parametrize("page", …, indirect)`."""
    client = page_of(request.getfixturevalue(request.param))
    yield client
    client.worker.close()


def asked(client, kind, status=200, **question):
    """The answer to a question."""
    done = client.post(f"/{TOKEN}/ask/{kind}", json=question)
    assert done.status_code == status, done.text
    return done.json()


def refusal(client, kind, status=422, **question):
    """The line that says why a question has no answer."""
    line = asked(client, kind, status, **question)["error"]
    assert "\n" not in line
    return line


def every_image(model):
    """All states of a model of images with their probabilities, by complete rows alone."""
    states = torch.tensor(list(product(*(range(c.size) for c in model.schema.columns))))
    return states, model.log_prob(states).double().exp()
