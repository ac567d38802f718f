"""A circuit as a torch module: the density p(x) = Σ_r π_r |c_r(x)|² / Z, ready for training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Self, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.circuits.root_layers import part_of
from squircuit.data import Schema
from squircuit.data.given import rows_of
from squircuit.errors import ParameterError, is_whole, warn_former
from squircuit.execution.log_scales import log_sum
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.models.call import EVALUATION, Call
from squircuit.models.density import Density
from squircuit.models.queries import Queries
from squircuit.models.saving import save
from squircuit.models.weights import StackedWeights
from squircuit.storage.files import PART


@final
class SquaredCircuit(Queries, StackedWeights):
    """p(x) = Σ_r π_r |c_r(x)|² / Z of a circuit, with the weights of equal layers stacked.

    Where the constraints of its parameters make the circuit unitary, and its weights keep them, Z = 1 and is
    not computed. Otherwise log Z is computed with every call, once a batch. Weights are looked at with every
    call, so answers are normalised however they were changed; :meth:`training_step` alone leaves that out.
    Train unitary models with :class:`squircuit.optim.Polar` or POGO, which stay on the manifold: off it each
    step computes Z, and where that is not tractable there is no loss.

    The parts have a file each: :mod:`squircuit.models.weights` holds the tensors,
    :mod:`squircuit.models.density` finds log p and log Z, and :mod:`squircuit.models.queries` has the
    questions.

    Args:
        circuit: with weights, or without: then they are drawn from ``seed``.
        seed: of the initial weights.
        dtype: complex64 or complex128 (float32 or float64 for real circuits is chosen to match).

    Attributes:
        schema: the columns of the table that the model is of, or None; kept in files, never needed.
        shape: of the images that the model is of, such as (28, 28), or None; likewise.
        notes: JSON data in the user's words, likewise.

    Example:
        >>> import squircuit as sq
        >>> model = SquaredCircuit(sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(8), units=4))
        >>> model.log_prob(torch.zeros(3, 16, dtype=torch.long)).shape
        torch.Size([3])
        >>> abs(model.log_partition().item()) < 1e-5
        True
    """

    def __init__(self, circuit: Circuit, seed: int = 0, dtype: torch.dtype = torch.complex64) -> None:
        super().__init__(circuit, seed, dtype)
        self.schema: Schema | None = None
        self.shape: tuple[int, ...] | None = None
        self.notes: dict[str, Any] = {}
        self._density = Density(self)
        self._call = EVALUATION

    # ------------------------------------------------------------------ density

    def forward(self, x: Any, missing: Any = None) -> Tensor:
        """log p(x): see :meth:`log_prob`."""
        return self.log_prob(x, missing)

    def log_prob(self, x: Any, missing: Any = None) -> Tensor:
        """log p of the observed entries of every row: (n, d) → (n,), exact and normalised; −inf where p is 0.

        Args:
            x: rows of data; NaN in the column of a continuous variable means missing. Where the model has a
                ``schema``, also a data frame or a mapping: columns that are not there are marginalised.
            missing: booleans, True = marginalised, (d,) for all rows or (n, d), or names of columns.
        """
        rows, gaps = rows_of(self.schema, x, missing)
        return self._density.log_prob(self, self._call, rows, gaps, components=False)

    def component_log_prob(self, x: Any, missing: Any = None) -> Tensor:
        """log p(m, x) of the circuits m = 1 … M that are mixed: (n, d) → (n, M), exact and normalised.

        These are the root layers: the models of :func:`squircuit.mixture`, the ``components`` or trees.
        Σ_m p(m, x) = p(x), and the softmax over m is p(m | x), to which circuit a row belongs.

        Args:
            x, missing: as for :meth:`log_prob`.

        Example:
            >>> import squircuit as sq
            >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
            >>> model, x = SquaredCircuit(circuit), [[0, 1, 1, 0], [1, 1, 1, 1]]
            >>> terms = model.component_log_prob(x)
            >>> terms.shape, bool(torch.allclose(terms.logsumexp(dim=1), model.log_prob(x)))
            (torch.Size([2, 3]), True)
        """
        rows, gaps = rows_of(self.schema, x, missing)
        return self._density.log_prob(self, self._call, rows, gaps, components=True)

    def component_log_weights(self) -> Tensor:
        """log p(m), the shares of the circuits that are mixed, which sum to 1: (M,)."""
        return self._density.component_log_weights(self, self._call)

    @property
    def classes(self) -> list[str]:
        """The names of the circuits that are mixed, where each is the model of a class; else none.

        ``notes["classes"]`` says so, see :func:`squircuit.fit_classes`.
        """
        names = self.notes.get("classes")
        if not isinstance(names, list) or not len(names) == len(self.structure.roots) > 1:
            return []
        return [str(name) for name in names]

    def component(self, *numbers: int) -> SquaredCircuit:
        """One of the circuits that are mixed as a model of its own, p(x | m), or some with their shares.

        It is in evaluation mode and learns nothing until it is told to.

        Example:
            >>> import squircuit as sq
            >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
            >>> SquaredCircuit(circuit).component(2).sample(5, seed=0).shape
            torch.Size([5, 4])
        """
        sizes = [root.units for root in self.structure.roots]
        last = len(sizes) - 1
        for number in numbers:
            if not is_whole(number, 0, last):
                raise ParameterError(
                    f"component {number!r} of {last + 1}. Fix: pass a number from 0 to {last}."
                )
        if not numbers:
            raise ParameterError(f"no component of {last + 1} is named. Fix: pass a number from 0 to {last}.")
        circuit = self.circuit()
        of_layers = torch.split(circuit.root_shares, sizes)
        shares = torch.cat([of_layers[number] for number in numbers])
        part = SquaredCircuit(part_of(circuit, numbers, shares / shares.sum()), dtype=self.precision)
        part.schema, part.shape = self.schema, self.shape
        return part.to(self.device).eval().requires_grad_(False)

    def log_density(self, x: Tensor, real: torch.dtype | None = None) -> Tensor:
        """log Σ_r π_r |c_r(x)|², not divided by Z, of data that has been checked: (n, d) → (n,).

        Args:
            x: rows of data.
            real: float32 or float64, the precision; default the model's own.
        """
        return self._density.amplitudes.log_density(self, x, real or self.precision)

    def log_densities(self, x: Tensor, real: torch.dtype | None = None) -> Tensor:
        """The same sum over the units r of every root layer by itself: (n, d) → (n, M)."""
        return self._density.amplitudes.log_densities(self, x, real or self.precision)

    def log_partition(self, double: bool = True) -> Tensor:
        """log Z, exact, by propagating Gram matrices; in double precision unless told otherwise."""
        return log_sum(self._density.log_integrals(self, double))

    def snapshot(self, joined: bool = False) -> Snapshot:
        """The model as queries see it; StructureError where they are not tractable.

        Args:
            joined: count the cross terms of all sums, also those that vanish in marginals.
        """
        return self._density.snapshot(self, joined=joined)

    # ------------------------------------------------------------------ training

    def train(self, mode: bool = True) -> Self:
        """Training mode, or with ``eval()`` evaluation: then no product is in TF32, gradients or not."""
        self._density.network.tf32 = mode
        super().train(mode)
        return self

    @contextmanager
    def training_step(self, on_manifold: bool = False) -> Iterator[None]:
        """Calls inside are steps of a training, in which a GPU is never waited for.

        Outside, every call checks its data, looks at the weights, and divides by Z where that is not 1; a
        loop of one's own is right without this, and on a GPU faster with it. See
        :mod:`squircuit.models.call` for what a step leaves out.

        Args:
            on_manifold: the optimiser keeps weights on the manifold, as Polar and POGO do: Z = 1 is taken for
                granted.

        Example:
            >>> import squircuit as sq
            >>> model = SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(2), units=2))
            >>> optimiser = sq.optim.Polar(model.parameters(), lr=0.3)
            >>> with model.training_step(on_manifold=True):
            ...     (-model.log_prob([[0, 1, 1, 0]]).mean()).backward()
            >>> optimiser.step()
        """
        before, self._call = self._call, Call(is_step=True, on_manifold=on_manifold)
        try:
            yield
        finally:
            self._call = before

    @contextmanager
    def trusting(self) -> Iterator[None]:
        """The former name of ``training_step(on_manifold=True)``."""
        warn_former("model.trusting()", "model.training_step(on_manifold=True)", above=1)
        with self.training_step(on_manifold=True):
            yield

    # ------------------------------------------------------------------ text and files

    def extra_repr(self) -> str:
        """What the model is, in one line."""
        kind = "unitary" if self.is_unitary else "squared"
        numbers = sum(p.numel() * (2 if p.is_complex() else 1) for p in self.parameters())
        return f"{kind}, {self.structure.num_variables} variables, {numbers:,} parameters"

    def draw(self) -> str:
        """The layers of the circuit as SVG text; inputs have the names of their columns, where it knows them.

        Example:
            >>> import squircuit as sq
            >>> model = sq.table_model({"sex": [0, 1, 1], "size": [0.2, 0.1, 0.4]}, size=4)
            >>> "sex" in model.draw(), "x0" in model.draw()
            (True, False)
        """
        return self.structure.draw(None if self.schema is None else self.schema.names)

    def save(
        self,
        path: str | PathLike[str],
        notes: Mapping[str, Any] | None = None,
        part_bytes: int = PART,
    ) -> None:
        """Write the model to one file, from which :func:`squircuit.load` makes it again.

        The file is there completely or not at all; it is safetensors and holds no program. Where weights take
        more than ``part_bytes``, they are in files of that size beside it, which belong to it.

        Args:
            path: of the file, such as "digits.safetensors".
            notes: JSON data to be kept with it, e.g. how it was trained; default ``model.notes``.
            part_bytes: of weights in one file, default 4 GB.

        Raises:
            FormatError: if the file cannot be written, or an input function is of a class of your own.
            ParameterError: if weights are not finite, or notes no JSON data.
        """
        save(self, path, self.notes if notes is None else notes, part_bytes)
