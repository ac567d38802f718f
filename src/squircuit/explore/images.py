"""Questions to models of images: some pixels are seen, the others are asked for."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from squircuit.errors import DataError, ParameterError
from squircuit.explore.exhibit import Exhibit, row_of, shares_of_members
from squircuit.explore.fields import Question, entries, seed, text, whole
from squircuit.models import SquaredCircuit
from squircuit.storage.words import listed, quoted

MOST = 24
"""Completions at once."""


def completions(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """Exact joint samples of all pixels that are not seen, given those that are.

    The question has ``pixels``, a number for each variable or null where it is not seen, ``count`` and
    ``seed``. A model of classes has a ``class``, too: then all are drawn of this one.
    """
    x, missing = _seen(exhibit, question)
    drawn = _asked(exhibit, question).sample(
        whole(question, "count", 1, MOST, 6), given=x, missing=missing, seed=seed(question)
    )
    return {"completions": drawn[:, 0].tolist()}


def likelihood(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """log p of the pixels that are seen, in nats and in bits for each, and to which member they belong."""
    x, missing = _seen(exhibit, question)
    log_prob, seen = float(exhibit.model.log_prob(x, missing)), int((~missing).sum())
    return {
        "log_prob": log_prob,
        "seen": seen,
        "bits": -log_prob / seen / math.log(2) if seen else None,
        "members": shares_of_members(exhibit, x, missing),
        "classes": exhibit.model.classes,
    }


def spread(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """The mean of every pixel and its standard deviation, given those that are seen; 0 where it is seen."""
    x, missing = _seen(exhibit, question)
    found = exhibit.model.marginals(x, missing)
    return {"mean": found.mean[0].tolist(), "deviation": found.variance[0].clamp_min(0).sqrt().tolist()}


def _asked(exhibit: Exhibit, question: Question) -> SquaredCircuit:
    """The model, or that of the class that the question names."""
    if "class" not in question:
        return exhibit.model
    name, classes = text(question, "class"), exhibit.model.classes
    if name not in classes:
        known = f"one of {listed(classes)}" if classes else "leave it out; this model has no classes"
        raise ParameterError(f"{quoted(name)} is no class", where="class", fix=known)
    return exhibit.part(classes.index(name))


def _seen(exhibit: Exhibit, question: Question) -> tuple[Tensor, Tensor]:
    """The row of an image and which of its pixels are not seen, (1, d) each."""
    pixels, columns = entries(question, "pixels", list), exhibit.schema.columns
    if len(pixels) != len(columns):
        raise DataError(
            f"{len(pixels)} numbers, but the model has {len(columns)} pixels",
            where="pixels",
            fix="pass one for each, or null",
        )
    for place, value in enumerate(pixels):
        if value is not None and (type(value) not in (int, float) or not math.isfinite(value)):
            raise DataError(f"{quoted(value)} is no number", where=f"pixel {place}", fix="pass one, or null")
    filled, discrete = [0 if value is None else value for value in pixels], columns[0].is_discrete
    for place, value in enumerate(filled):
        if discrete and value != int(value):
            raise DataError(f"{quoted(value)} is no level", where=f"pixel {place}", fix="pass a whole number")
    return row_of(filled, [value is None for value in pixels], discrete)
