"""What is seen of a run while it goes on: a line on the terminal, scalars for TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from squircuit.data.optional import need
from squircuit.training.history import Epoch, History, in_words, log_z_text, loss_text

PAUSE = 2.0
"""Seconds at least between two lines where the output is no terminal."""

WIDE = 100
"""Columns of a terminal that has room for a bar beside the figures."""


class Display:
    """Shows nothing; what other displays do more."""

    def start(self, done: int, steps: int) -> None:
        """A run begins with so many of its steps done."""

    def step(self, step: int, epoch: int, loss: float) -> None:
        """A step is done; the loss is the mean of its epoch so far, in the unit of the user."""

    def epoch(self, row: Epoch, best: float | None) -> None:
        """An epoch is done."""

    def stop(self, history: History | None) -> None:
        """The run has ended; without history by an error."""


@final
class Bar(Display):
    """One line that changes: epoch, loss, validation, best, log Z, steps a second, time left."""

    def __init__(self, unit: str, epochs: int, console: Console) -> None:
        self._epochs, self._unit, self._seen = epochs, unit, ("–", "–", "–")
        bar = [BarColumn(bar_width=20)] if console.width >= WIDE else []
        left = TimeRemainingColumn(compact=True)  # first: narrow terminals cut the end
        self._bar = Progress(left, *bar, TextColumn("{task.description}"), console=console)

    def start(self, done: int, steps: int) -> None:
        self._task = self._bar.add_task("training", completed=done, total=steps)
        self._first, self._started = done, time.monotonic()
        self._bar.start()

    def step(self, step: int, epoch: int, loss: float) -> None:
        valid, best, log_z = self._seen
        rate = (step - self._first) / max(1e-9, time.monotonic() - self._started)
        scores = f"loss {loss:.4f} valid {valid} best {best} {self._unit} log Z {log_z}"
        text = f"{rate:.3g}/s epoch {epoch}/{self._epochs} {scores}"
        self._bar.update(self._task, completed=step, description=text)

    def epoch(self, row: Epoch, best: float | None) -> None:
        valid = self._seen[0] if row.valid is None else loss_text(row.valid)
        log_z = self._seen[2] if row.log_z is None else log_z_text(row.log_z)
        self._seen = valid, loss_text(best), log_z

    def stop(self, history: History | None) -> None:
        self._bar.stop()
        if history is not None:
            self._bar.console.print(str(history).splitlines()[-1], highlight=False)


@final
class Lines(Display):
    """Plain lines, for files and pipes."""

    def __init__(self, unit: str, epochs: int, console: Console) -> None:
        self._unit, self._epochs, self._console, self._last = unit, epochs, console, 0.0

    def epoch(self, row: Epoch, best: float | None) -> None:
        if time.monotonic() - self._last < PAUSE and row.epoch < self._epochs:
            return
        self._last = time.monotonic()
        self._print(
            f"epoch {row.epoch}/{self._epochs}  loss {row.train:.4f}  valid {loss_text(row.valid)}  "
            f"best {loss_text(best)} {self._unit}  log Z {log_z_text(row.log_z)}  {row.seconds:.0f} s"
        )

    def stop(self, history: History | None) -> None:
        if history is not None:
            self._print(str(history).splitlines()[-1])

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)


@final
class TensorBoard(Display):
    """Scalars of every epoch in a folder that TensorBoard reads."""

    def __init__(self, folder: Path) -> None:
        need("tensorboard", "tensorboard=True", "tensorboard")
        self._folder = folder

    def start(self, done: int, steps: int) -> None:
        module = need("torch.utils.tensorboard", "tensorboard=True", "tensorboard")
        self._writer: Any = module.SummaryWriter(str(self._folder), purge_step=done or None)

    def epoch(self, row: Epoch, best: float | None) -> None:
        values = {"loss/train": row.train, "loss/valid": row.valid, "log_z": row.log_z, "lr": row.lr}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, row.step)
        self._writer.flush()

    def stop(self, history: History | None) -> None:
        self._writer.close()


def terminal(unit: str, epochs: int) -> Display:
    """A bar on terminals and in notebooks, else lines; on standard error, so that output stays clean."""
    console = Console(stderr=True)
    kind = Bar if console.is_terminal or console.is_jupyter else Lines
    return kind("bpd" if unit == "bits" else in_words(unit), epochs, console)
