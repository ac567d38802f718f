"""The page of the demo: one file, with its pictures inside."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure

import squircuit as sq
from squircuit.storage.atomic import replace

TEMPLATE = Path(__file__).with_name("demo_page.html")
DPI = 160

CODE = """
import squircuit as sq
digits = sq.data.load("digits")
tree = sq.regions.chow_liu(digits.train)                      # which pixels meet where
grey = sq.Categorical(17, ordered=True)
model = sq.SquaredCircuit(sq.build(tree, grey, units={units}, roots={roots}, tie="inputs"))
sq.fit(model, digits, lr={lr}, average={average}, epochs={epochs})

model.log_prob(digits.test)                                   # exact, and so is all that follows
model.sample(32)
model.sample(6, given=digits.test, missing=[v >= 32 for v in range(64)])   # complete the lower halves
"""


class Scored(Protocol):
    name: str
    nats: float
    error: float
    note: str

    @property
    def bits(self) -> float: ...


def write_page(
    folder: Path,
    model: sq.SquaredCircuit,
    digits: sq.data.Dataset,
    history: sq.History,
    scores: list[Any],
    pictures: Mapping[str, Figure],
    settings: Mapping[str, Any],
) -> Path:
    """The page as folder/index.html, in one step; its path.

    Args:
        folder: made where it is not there.
        model, digits, history: trained, on what, and how it went.
        scores: that of the model first.
        pictures: "curves", "real", "samples", "completions".
        settings: units, roots and options of training, for the code and the footer.
    """
    rows = {f"{name}_rows": len(getattr(digits, name)) for name in ("train", "valid", "test")}
    words = {
        "bits": f"{scores[0].bits:.3f}",
        "log_z": scientific(model.log_partition().item()),
        "parameters": f"{model.structure.num_parameters():,}".replace(",", "\u202f"),
        "seconds": f"{history.rows[-1].seconds:.0f}",
        "best": str(history.best_epoch),
        "scores": score_rows(scores),
        "properties": property_rows(sq.check(model.circuit())),
        "code": highlighted(CODE.format(**settings).strip()),
        "model": escape(repr(model)),
        "settings": escape(", ".join(f"{name} {value}" for name, value in settings.items())),
        "version": sq.__version__,
        "torch": escape(torch.__version__),
    }
    inside = {name: as_address(picture) for name, picture in pictures.items()}
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(words, **rows, **inside)
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "index.html", page.encode())
    return folder / "index.html"


def as_address(picture: Figure) -> str:
    """A picture as an address that holds its bytes."""
    content = io.BytesIO()
    picture.savefig(content, format="png", dpi=DPI)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def score_rows(scores: Iterable[Scored]) -> str:
    rows = []
    for number, score in enumerate(scores):
        cells = (
            f"<td>{escape(score.name)}</td>",
            f'<td class="number">{number_text(score.nats, 2)} ± {score.error:.2f}</td>',
            f'<td class="number bits">{score.bits:.3f}</td>',
            f'<td class="note">{escape(score.note)}</td>',
        )
        own = ' class="own"' if number == 0 else ""
        rows.append(f"<tr{own}>{''.join(cells)}</tr>")
    return "\n".join(rows)


def property_rows(report: sq.Report) -> str:
    rows = []
    for verdict in report:
        reason = str(verdict).split(": ", 1)[1]
        mark = f'<td class="mark {"yes" if verdict else "no"}">{verdict.mark}</td>'
        rows.append(f'<tr>{mark}<td>{escape(verdict.name)}</td><td class="note">{escape(reason)}</td></tr>')
    return "\n".join(rows)


def highlighted(code: str) -> str:
    """Comments fainter than code."""
    lines = (line.partition("#") for line in escape(code).splitlines())
    return "\n".join(
        f'{code}<span class="comment">{mark}{words}</span>' if mark else code for code, mark, words in lines
    )


def scientific(value: float) -> str:
    """
    >>> scientific(-2.5e-7), scientific(0.0)
    ('−2.5 · 10⁻⁷', '0')
    """
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{number_text(float(mantissa), 1)} · 10{power}"


def number_text(value: float, digits: int) -> str:
    """With a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")
