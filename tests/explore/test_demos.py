"""Models to try without a file, the kept address, and how the program begins and ends."""

import os
import re
import signal
import stat
import subprocess
import sys
import urllib.request

import pytest

from squircuit.errors import ParameterError
from squircuit.explore import demos, server
from squircuit.progress import heard

from .conftest import asked, page_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SQUIRCUIT_DATA", str(tmp_path))
    return tmp_path / "explore"


@pytest.fixture
def quick(monkeypatch):
    """Less training: what is tested is not how good the models are."""
    pytest.importorskip("sklearn", reason="the data comes with scikit-learn")
    monkeypatch.setattr(demos, "EPOCHS", 1)
    monkeypatch.setattr(demos, "MINUTES", 0.005)


def test_models_to_try_are_made_when_first_asked_for_tell_how_far_and_are_kept(folder, quick, monkeypatch):
    told = []
    with heard(told.append):
        digits = demos.demos().chosen({"model": "digits"})
    assert digits.is_image
    assert digits.model.notes["classes"] == list("0123456789")
    assert told == sorted(told)
    assert 8 <= len(told) <= 12
    assert sorted(file.name for file in folder.iterdir()) == ["digits-1.safetensors"]
    monkeypatch.setattr(demos, "image_model", None)  # nothing is trained again
    again = demos.demos().chosen({"model": "digits"})
    x = again.model.sample(3, seed=0)
    assert again.model.log_prob(x).tolist() == digits.model.log_prob(x).tolist()


def test_the_small_table_has_the_species_by_name(folder, quick):
    iris = demos.demos().chosen({"model": "iris"})
    assert iris.schema.names[-1] == "species"
    assert iris.schema.columns[-1].categories == ("setosa", "versicolor", "virginica")


def test_a_damaged_file_of_a_model_to_try_is_made_anew(folder, quick):
    folder.mkdir()
    (folder / "digits-1.safetensors").write_bytes(b"half a file")
    assert demos.demos().chosen({}).is_image


def test_a_shelf_says_which_models_it_has_and_refuses_others(image_model):
    page = page_of(image_model)
    assert asked(page, "shelf") == {"names": ["model.safetensors"]}
    assert "pass one of model.safetensors" in asked(page, "likelihood", 422, model="model")["error"]
    page.worker.close()


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_the_token_is_kept_where_only_its_user_can_read_it(folder):
    token = server.kept_token()
    file = folder / "token"
    assert server.TOKEN.fullmatch(token)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert server.kept_token() == token
    file.chmod(0o644)
    assert server.kept_token() != token  # somebody may have read it
    file.chmod(0o600)
    file.write_text("short")
    assert server.TOKEN.fullmatch(server.kept_token())


def test_a_port_that_is_taken_is_refused_where_it_was_named():
    with server.listening(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ParameterError, match=f"--port {port}: .*Fix: another port"):
            server.listening(port)
        with server.listening(None) as other:
            assert other.getsockname()[1] != port


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal of POSIX")
def test_ctrl_c_ends_the_program_cleanly(image_model, tmp_path):
    image_model.save(file := tmp_path / "model.safetensors")
    command = [sys.executable, "-m", "squircuit", "explore", file, "--no-browser", "--port", "0"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "SQUIRCUIT_DATA": str(tmp_path)}, **options) as program:
        address = program.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", address)
        assert b"squircuit" in urllib.request.urlopen(address, timeout=20).read()
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
    assert program.returncode == 0
    assert errors.strip() == "ended"
