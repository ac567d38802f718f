"""What is seen of a run while it goes on: a line on the terminal, scalars for TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from squircuit.data.optional import need
from squircuit.training.callbacks import Callback, Event
from squircuit.training.history import in_words, log_z_text, loss_text

PAUSE = 2.0
"""Seconds at least between two lines where the output is no terminal."""

WIDE = 100
"""Columns of a terminal that has room for a bar beside the figures."""


class Display(Callback):
    """Shows what it is told, and asks nothing."""

    asks_model = False


@final
class Bar(Display):
    """One line that changes: epoch, loss, validation, best, log Z, steps a second, time left."""

    def __init__(self, unit: str, epochs: int, console: Console) -> None:
        self._epochs, self._unit, self._seen = epochs, unit, ("–", "–", "–")
        bar = [BarColumn(bar_width=20)] if console.width >= WIDE else []
        left = TimeRemainingColumn(compact=True)  # first: narrow terminals cut the end
        self._bar = Progress(left, *bar, TextColumn("{task.description}"), console=console)

    def start(self, event: Event) -> None:
        self._task = self._bar.add_task("training", completed=event.done, total=event.total)
        self._first, self._started = event.done, time.monotonic()
        self._bar.start()

    def step(self, event: Event) -> None:
        valid, best, log_z = self._seen
        rate = (event.done - self._first) / max(1e-9, time.monotonic() - self._started)
        epoch = 1 + (event.done - 1) * self._epochs // (event.total or 1)
        scores = f"loss {event.scores['train']:.4f} valid {valid} best {best} {self._unit} log Z {log_z}"
        text = f"{rate:.3g}/s epoch {epoch}/{self._epochs} {scores}"
        self._bar.update(self._task, completed=event.done, description=text)

    def __call__(self, event: Event) -> None:
        valid = loss_text(event.scores["valid"]) if "valid" in event.scores else self._seen[0]
        log_z = log_z_text(event.scores["log_z"]) if "log_z" in event.scores else self._seen[2]
        self._seen = valid, loss_text(event.scores.get("best")), log_z

    def stop(self, event: Event) -> None:
        self._bar.stop()
        if event.note:
            self._bar.console.print(event.note, highlight=False)


@final
class Lines(Display):
    """Plain lines, for files and pipes."""

    def __init__(self, unit: str, epochs: int, console: Console) -> None:
        self._unit, self._epochs, self._console, self._last = unit, epochs, console, 0.0

    def __call__(self, event: Event) -> None:
        if time.monotonic() - self._last < PAUSE and event.done < self._epochs:
            return
        self._last = time.monotonic()
        loss, valid, best = (loss_text(event.scores.get(name)) for name in ("train", "valid", "best"))
        self._print(
            f"epoch {event.done}/{self._epochs}  loss {loss}  valid {valid}  "
            f"best {best} {self._unit}  log Z {log_z_text(event.scores.get('log_z'))}  {event.seconds:.0f} s"
        )

    def stop(self, event: Event) -> None:
        if event.note:
            self._print(event.note)

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


@final
class TensorBoard(Display):
    """Scalars of every epoch in a folder that TensorBoard reads."""

    def __init__(self, folder: Path) -> None:
        need("tensorboard", "tensorboard=True", "tensorboard")
        self._folder = folder

    def start(self, event: Event) -> None:
        module = need("torch.utils.tensorboard", "tensorboard=True", "tensorboard")
        self._writer: Any = module.SummaryWriter(str(self._folder), purge_step=event.done or None)

    def step(self, event: Event) -> None:
        self._step = event.done  # the last one before an epoch ends is that of the epoch

    def __call__(self, event: Event) -> None:
        names = {"loss/train": "train", "loss/valid": "valid", "log_z": "log_z", "lr": "lr"}
        for name, score in names.items():
            if score in event.scores:
                self._writer.add_scalar(name, event.scores[score], self._step)
        self._writer.flush()

    def stop(self, event: Event) -> None:
        self._writer.close()


def terminal(unit: str, epochs: int) -> Callback:
    """A bar on terminals and in notebooks, else lines; on standard error, so that output stays clean."""
    console = Console(stderr=True)
    kind = Bar if console.is_terminal or console.is_jupyter else Lines
    return kind("bpd" if unit == "bits" else in_words(unit), epochs, console)
