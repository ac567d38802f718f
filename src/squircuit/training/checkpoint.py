"""The folder of a run: options, history, checkpoint, best weights. Every file is written in one step."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from torch import Tensor

from squircuit import storage
from squircuit.errors import DataError, FormatError, ParameterError, Wording
from squircuit.models import SquaredCircuit
from squircuit.storage.atomic import replace, sweep
from squircuit.storage.documents import ContentError
from squircuit.storage.locks import FolderLock
from squircuit.storage.words import one_line, without_fix
from squircuit.training.config import UNITS, TrainingConfig, shown
from squircuit.training.feed import Data
from squircuit.training.history import Epoch, History, rows_of

CHECKPOINT = "checkpoint.safetensors"
FILES = ("config.json", "history.jsonl", CHECKPOINT, "best.safetensors")
FREE = ("progress", "tensorboard", "checkpoint_minutes")
"""Options that do not change the result: a resumed run may have others."""


@final
class RunFolder:
    """The files of one training run.

    Args:
        path: of the folder; made where it is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            if self.path.exists() and not self.path.is_dir():
                raise ParameterError(f"{path} is a file", where="run", fix="pass a folder")
        except OSError as error:  # over-long names, folders that may not be looked into
            raise self._cannot(error) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder, made where it is missing, for this process alone; what killed ones left is deleted."""
        is_new = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(self.path).__enter__()
        except OSError as error:
            raise self._cannot(error) from error
        try:
            for name in FILES:
                sweep(self.path / name)
            yield
        finally:
            lock.__exit__()
            if is_new:
                with suppress(OSError):
                    self.path.rmdir()  # where nothing has been written

    def require_usable(self) -> None:
        """Refuse, before any work is done, a folder that cannot be written to, or in which another trains."""
        try:
            self._require_place()
            FolderLock(self.path).require_free()
        except OSError as error:
            raise self._cannot(error) from error

    def _require_place(self) -> None:
        """Refuse what cannot be a folder that files are written to."""
        wanted = self.path.absolute()
        there = next(place for place in (wanted, *wanted.parents) if place.exists())
        if not there.is_dir():
            raise ParameterError(f"{there} is a file", where=self._argument, fix="pass another folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{there} may not be written to")
        for part in wanted.relative_to(there).parts:
            (there / part).exists()  # a name that is too long raises

    def _cannot(self, error: OSError) -> FormatError:
        return FormatError(
            f"files cannot be written there ({error.strerror or error})",
            where=self._argument,
            fix="pass a folder that can be made, that you may write to, and that has room",
        )

    @property
    def _argument(self) -> Wording:
        shown = reprlib.repr(str(self.path))
        return Wording(f"run={shown}", f"--run {shown[1:-1]}")

    @property
    def is_begun(self) -> bool:
        """The folder holds a run."""
        return (self.path / "config.json").exists()

    def begin(self, identity: Mapping[str, Any], first_checkpoint: Callable[[], None]) -> None:
        """Write the first checkpoint, then what the run is of, which makes the folder one of a run."""
        first_checkpoint()
        replace(self.path / "config.json", (json.dumps(identity, indent=2) + "\n").encode())

    def require_same(self, identity: Mapping[str, Any]) -> None:
        """Refuse to go on with a run of another configuration, model or data."""
        found = self._identity()
        for name, value in identity["config"].items():
            other = found["config"].get(name)
            if name not in FREE and other != value:
                raise ParameterError(
                    f"the run there has {name}={shown(other)}, this one {name}={value!r}",
                    where=str(self.path),
                    value=value,
                    fix=Wording("pass ", "--set ") + f"{name}={shown(other)}, or another folder",
                )
        for name, words in (("model", "model"), ("train", "training data"), ("valid", "validation data")):
            if found.get(name) != identity[name]:
                error = ParameterError if name == "model" else DataError
                raise error(
                    f"{self.path}: the run there is of another {words}. Fix: pass that, or another folder."
                )

    def _identity(self) -> dict[str, Any]:
        path = self.path / "config.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(found["config"], dict):
                return dict(found)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                f"{path}: damaged ({one_line(error)}). Fix: start again in another folder."
            ) from error
        raise FormatError(f"{path}: damaged. Fix: start again in another folder.")

    def save(self, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> None:
        """Write the checkpoint."""
        storage.write(self.path / CHECKPOINT, tensors, document, "checkpoint")

    def load(self) -> storage.Stored:
        """The checkpoint."""
        return storage.read(self.path / CHECKPOINT, "checkpoint")

    def write_history(self, rows: Sequence[Epoch]) -> None:
        """One JSON object a line for each epoch."""
        lines = "".join(json.dumps(row.to_dict()) + "\n" for row in rows)
        replace(self.path / "history.jsonl", lines.encode())

    def history(self) -> History:
        """What `write_history` wrote last; the best epoch is the first of the lowest validation loss."""
        path = self.path / "history.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = rows_of([json.loads(line) for line in lines])
            unit = self._identity()["config"].get("unit")
            if unit not in UNITS:
                raise ContentError(f"its unit is {shown(unit)}")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise FormatError(
                f"{self.path}: no history of a run ({path.name}: {without_fix(error)}). "
                "Fix: pass the folder of a run."
            ) from error
        scored = [(row.valid, row.epoch) for row in rows if row.valid is not None]
        best = min(scored)[1] if scored else len(rows)  # without validation the last weights are the best
        return History(rows, unit, best, "as far as the folder tells")

    def write_best(self, model: SquaredCircuit) -> None:
        """The model with its best weights, which it has now."""
        model.save(self.path / "best.safetensors")


def identity(model: SquaredCircuit, config: TrainingConfig, data: Data) -> dict[str, Any]:
    """What a run is of: its options, and what tells models and data from others."""
    precision = sorted({str(p.dtype) for p in model.parameters()})
    structure = hashlib.sha256(f"{model.structure.to_json()} {precision}".encode()).hexdigest()
    valid = None if data.valid is None else data.valid.fingerprint()
    return {"config": config.to_dict(), "model": structure, "train": data.train.fingerprint(), "valid": valid}
