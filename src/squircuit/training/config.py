"""How a model is trained: one validated set of options, from Python, a TOML or YAML file, or texts."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from squircuit import optim
from squircuit.data.optional import need
from squircuit.errors import FormatError, ParameterError, suggestion
from squircuit.storage.documents import ContentError
from squircuit.storage.words import one_line, path_text, quoted

Auto = Literal["auto"]
SCHEDULES = ("cosine", "constant", "step")
UNITS = ("auto", "bits", "nats")
SHARDS = ("none", "optimiser", "weights")
MOST_BYTES = 2**16
"""Bytes of a file of options, which is short."""
DEEPEST = 64
"""Lists within lists of a YAML file."""


@dataclass(frozen=True)
class TrainingConfig:
    """The options of :func:`squircuit.fit`; "auto" is decided by the model and the number of rows.

    Args:
        epochs: passes through the training data at most.
        batch: rows in a step; all rows where there are fewer.
        optimiser: one of ``sq.optim.names()``: "polar", "pogo", "landing-pc", "landing-sgd", "adam" or the
            name of your own; or its class, which is kept by its name. Auto: polar for semi-unitary weights,
            adam for free ones.
        lr: largest learning rate of the weights.
        lr_free: that of the parameters of input functions and of the weights of roots.
        schedule: after the warm-up: "cosine" falls to ``final_lr``, "constant" stays, "step" falls in two
            steps, after 1/2 and 3/4 of training.
        warm_up: share of all steps in which the learning rate grows from 0.
        final_lr: share of the learning rate that is left at the end.
        valid_fraction: share of the rows that is held out where no validation data is given; 0: none.
        valid_every: epochs from one validation to the next.
        patience: validations without a better score after which training stops; 0: it never stops early.
        average: decay of a moving average of the weights, which is then validated and kept; 0: none.
        apart: parts of a unitary mixture that have no weight in common, such as circuits on several trees,
            learn all rows, each as if it were alone, and keep their shares; False: each learns the rows that
            it is better at than the others. Apart is mostly better on new rows (docs/models.md).
        jitter: standard deviation of Gaussian noise added to continuous columns, anew in each step.
        unit: of the loss: "bits" per dimension or "nats" a row; auto: bits for images, else nats.
        seed: of the order of the rows, of the rows held out, and of the noise.
        shard: of several processes: "none": each steps all weights; "optimiser": each steps its part of them,
            and has the state of the optimiser for these alone; "weights": each holds only its part of the
            weights, too, and they are gathered while they are used (docs/scale.md).
        graph: on a GPU replay each step as one CUDA graph where that can be.
        checkpoint_minutes: at most so much work is lost when the process is killed.
        progress: show progress on the terminal.
        tensorboard: write scalars for TensorBoard into the folder of the run.

    Example:
        >>> TrainingConfig(epochs=20, lr=0.1).lr
        0.1
        >>> TrainingConfig.of({"epoch": 20})
        Traceback (most recent call last):
        squircuit.errors.ParameterError: there is no option 'epoch'. Fix: did you mean 'epochs'? ...
    """

    epochs: int | Auto = "auto"
    batch: int | Auto = "auto"
    optimiser: str = "auto"
    lr: float | Auto = "auto"
    lr_free: float = 0.01
    schedule: str = "cosine"
    warm_up: float = 0.05
    final_lr: float = 0.01
    valid_fraction: float = 0.1
    valid_every: int = 1
    patience: int | Auto = "auto"
    average: float = 0.0
    apart: bool = True
    jitter: float = 0.0
    unit: str = "auto"
    seed: int = 0
    shard: str = "none"
    graph: bool = True
    checkpoint_minutes: float = 5.0
    progress: bool = True
    tensorboard: bool = False

    def __post_init__(self) -> None:
        optimiser: Any = self.optimiser
        if isinstance(optimiser, type):
            object.__setattr__(self, "optimiser", optim.named(optimiser).name)
        for field in dataclasses.fields(self):
            _require_type(field, getattr(self, field.name))
        for name, (holds, range_) in RANGES.items():
            value = getattr(self, name)
            if value != "auto" and not (abs(value) <= sys.float_info.max and holds(value)):
                raise ParameterError(f"{name}={quoted(value)}. Fix: pass {range_}.")
        for name, known in {**CHOICES, "optimiser": ("auto", *optim.names())}.items():
            if getattr(self, name) not in known:
                value = quoted(getattr(self, name))
                raise ParameterError(f"{name}={value}. Fix: {suggestion(getattr(self, name), known)}")

    @classmethod
    def of(cls, source: Any = None, /, **overrides: Any) -> TrainingConfig:
        """The options of a config, a mapping or a TOML, YAML or JSON file, with some of them replaced."""
        if isinstance(source, str | Path):
            source = _of_file(Path(source))
        if isinstance(source, TrainingConfig):
            return source.replace(**overrides) if overrides else source
        if source is None or isinstance(source, Mapping):
            options = {**(source or {}), **overrides}
            for name in options:
                _require_known(name)
            return cls(**options)
        raise ParameterError(
            f"config={quoted(source)}. Fix: pass a TrainingConfig, a mapping, or a TOML or YAML file."
        )

    def replace(self, /, **changes: Any) -> TrainingConfig:
        """The same with other values of some options."""
        for name in changes:
            _require_known(name)
        return dataclasses.replace(self, **changes) if changes else self

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], source: Any = None) -> TrainingConfig:
        """Options as a command line gives them, on top of ``source``.

        Example:
            >>> TrainingConfig.from_texts({"lr": "0.05", "progress": "false"}).lr
            0.05
        """
        return cls.of(source, **{name: _parsed(name, text) for name, text in texts.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; :meth:`of` reads it."""
        return dataclasses.asdict(self)

    def rate_factor(self, step: int, steps: int) -> float:
        """The share of the largest learning rate in one step, from 0, of so many.

        It grows linearly through the first ``warm_up·steps`` steps. Of the others, a share t has passed:
        "cosine" is f + (1 − f)·(1 + cos πt)/2 with f = ``final_lr``; "constant" 1; "step" falls to √f at
        t = 1/2, to f at 3/4.

        Example:
            >>> cosine = TrainingConfig(warm_up=0.1, final_lr=0.0)
            >>> [round(cosine.rate_factor(step, 100), 2) for step in (0, 9, 10, 55, 99)]
            [0.1, 1.0, 1.0, 0.5, 0.0]
            >>> falling = TrainingConfig(schedule="step", warm_up=0.0, final_lr=0.01)
            >>> [round(falling.rate_factor(step, 100), 2) for step in (0, 50, 75)]
            [1.0, 0.1, 0.01]
        """
        warming, final = math.ceil(self.warm_up * steps), self.final_lr
        if step < warming:
            return (step + 1) / warming
        passed = (step - warming) / max(1, steps - warming)
        if self.schedule == "cosine":
            return final + (1 - final) * (1 + math.cos(math.pi * passed)) / 2
        if self.schedule == "step":
            return 1.0 if passed < 0.5 else math.sqrt(final) if passed < 0.75 else final
        return 1.0


MOST_EPOCHS = 1_000_000
RANGES: dict[str, tuple[Any, str]] = {
    "epochs": (lambda v: 1 <= v <= MOST_EPOCHS, f"at least 1, and at most {MOST_EPOCHS}"),
    "batch": (lambda v: 1 <= v < 2**31, "at least 1, and less than 2³¹"),
    "lr": (lambda v: v > 0, "a number above 0"),
    "lr_free": (lambda v: v >= 0, "a number from 0 upwards"),
    "warm_up": (lambda v: 0 <= v < 1, "a share in [0, 1)"),
    "final_lr": (lambda v: 0 <= v <= 1, "a share in [0, 1]"),
    "valid_fraction": (lambda v: 0 <= v < 1, "a share in [0, 1)"),
    "valid_every": (lambda v: 1 <= v <= MOST_EPOCHS, f"at least 1, and at most {MOST_EPOCHS}"),
    "patience": (lambda v: 0 <= v <= MOST_EPOCHS, f"0 (never stop early) or more, up to {MOST_EPOCHS}"),
    "average": (lambda v: 0 <= v < 1, "a decay in [0, 1)"),
    "jitter": (lambda v: v >= 0, "a standard deviation from 0 upwards"),
    "seed": (lambda v: 0 <= v < 2**63, "an integer from 0 to 2⁶³ − 1"),
    "checkpoint_minutes": (lambda v: v >= 0, "a number of minutes from 0 upwards"),
}
"""Option → what holds for its values, and that in words."""

CHOICES = {"schedule": SCHEDULES, "unit": UNITS, "shard": SHARDS}

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "an integer"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a text"),
    "bool": ((bool,), "True or False"),
}
"""Annotation → the types that it takes, and that in words."""
OTHER_NAMES = {"learning_rate": "lr", "n_iter": "epochs", "max_iter": "epochs", "random_state": "seed"}
"""What other libraries call some of the options."""


def _require_known(name: str) -> None:
    known = [field.name for field in dataclasses.fields(TrainingConfig)]
    if name not in known:
        meant = OTHER_NAMES.get(name, name)
        raise ParameterError(f"there is no option {quoted(name)}. Fix: {suggestion(meant, known)}")


def _require_type(field: dataclasses.Field[Any], value: Any) -> None:
    kind, _, auto = str(field.type).partition(" | ")
    types, words = KINDS[kind]
    if (auto and value == "auto") or (
        isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
    ):
        return
    raise ParameterError(f"{field.name}={quoted(value)}. Fix: pass {words}{' or auto' if auto else ''}.")


def _parsed(name: str, text: str) -> Any:
    """The value that a text means for this option."""
    _require_known(name)
    kind = next(str(f.type) for f in dataclasses.fields(TrainingConfig) if f.name == name).split(" | ")[0]
    if kind == "str" or text == "auto":
        return text
    try:
        return json.loads(text.lower())
    except (ValueError, RecursionError):  # no JSON, too many digits, too deep
        return text  # the check of types says what is wrong


def read_options(path: Path) -> dict[str, Any]:
    """What a TOML, YAML or JSON file of options holds, by name."""
    try:
        document = _document(path)
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(
            f"{path_text(path)}: cannot be read ({one_line(error)}). Fix: check the path."
        ) from error
    if not isinstance(document, Mapping):
        raise FormatError(f"{path}: it holds no options. Fix: write lines such as epochs = 20.")
    return {str(name): value for name, value in document.items()}


def _of_file(path: Path) -> TrainingConfig:
    options = read_options(path)
    try:
        return TrainingConfig.of(options)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def _document(path: Path) -> Any:
    with path.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise FormatError(f"{path}: more than {MOST_BYTES:,} bytes. Fix: pass a file of options.")
    text = content.decode("utf-8")
    if path.suffix == ".toml":
        return _read_with(tomllib.loads, text, path, "TOML")
    if path.suffix == ".json":
        return _read_with(json.loads, text, path, "JSON")
    if path.suffix in (".yaml", ".yml"):
        yaml = need("yaml", "reading YAML files", "yaml")
        return _read_with(lambda text: _without_aliases(yaml, text), text, path, "YAML")
    raise FormatError(f"{path}: files ending in {path.suffix!r} are not known. Fix: .toml, .yaml or .json.")


def _without_aliases(yaml: Any, text: str) -> Any:
    """What YAML text holds; some hundred bytes of aliases of aliases would fill any memory.

    Its parser takes a time that grows with the square of the depth.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ContentError("lists or mappings are nested too deeply")
        if isinstance(event, yaml.AliasEvent):
            raise ContentError("aliases, such as *name, are not read")
    return yaml.safe_load(text)


def _read_with(parse: Any, text: str, path: Path, format_: str) -> Any:
    """What a parser makes of a text; they raise much beside their own errors: too deep, too many digits."""
    try:
        return parse(text)
    except Exception as wrong:
        raise FormatError(
            f"{path}: not valid {format_} ({one_line(wrong)}). Fix: correct the file."
        ) from wrong
