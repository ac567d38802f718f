"""Messages of evidence as a walk needs them: row by row of the samples, with square roots of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from squircuit.execution.plan import Branch, Group, Key
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Form
from squircuit.inference.upward import contraction
from squircuit.inference.upward.messages import Messages
from squircuit.regions.scope import Scope


@final
class SquareRoots:
    """The messages of evidence, repeated for the samples.

    Args:
        messages: for m rows of evidence.
        rows: the row of evidence that each of B samples belongs to; None: one sample a row.
        known: the square roots that have been found so far, of rows of evidence.
    """

    def __init__(
        self, messages: Messages, rows: Tensor | None = None, known: dict[Key, Tensor] | None = None
    ) -> None:
        self.messages, self.rows = messages, rows
        self._known: dict[Key, Tensor] = {} if known is None else known
        self.snapshot: Snapshot = messages.snapshot
        self.layers: Mapping[Key, tuple[Group, int]] = self.snapshot.schedules.layers
        self.scopes: Mapping[Key, Scope] = self.snapshot.schedules.scopes

    def take(self, samples: Tensor) -> SquareRoots:
        """The messages for some of the samples."""
        rows = samples if self.rows is None else self.rows[samples]
        return SquareRoots(self.messages, rows, self._known)

    def form(self, key: Key) -> Form:
        """How the message of a layer is held."""
        return self.messages.schedule.forms[key]

    def observed(self, keys: list[Key]) -> dict[Key, Tensor]:
        """The values of those layers all of whose variables are observed."""
        return {key: self.vector(key) for key in keys if self.form(key) is Form.VECTOR}

    def vector(self, key: Key) -> Tensor:
        """The value of a layer all of whose variables are observed, of norm 1: (B, K)."""
        return self._repeated(self._value(key).T)

    def open_vector(self, key: Key, nodes: int) -> Tensor:
        """A layer's values at all nodes of the one open variable, up to one factor a row: (B, K, Q)."""
        step, row = self.messages.schedule.places[key]
        found = self.messages.found[step]
        shaped = found.value[row].reshape(key[0], -1, nodes).transpose(0, 1)
        sizes = found.counted()[row].reshape(-1, nodes)
        factor = (sizes - sizes.amax(dim=1, keepdim=True)).exp().nan_to_num(0.0)
        return self._repeated(shaped * factor.unsqueeze(1))

    def root(self, key: Key) -> Tensor:
        """L with R = L Lᴴ of a layer's message: (B, K, K). Several factors of a product ask for it."""
        if key not in self._known:
            self._known[key] = _square_root(self._value(key))
        return self._repeated(self._known[key])

    def times_roots(self, tensor: Tensor, others: list[Key]) -> Tensor:
        """Columns of (B, K, ∏K_i) times the roots of the messages of the layers that they belong to."""
        roots = {i: self.root(key) for i, key in enumerate(others) if self.form(key) is Form.MATRIX}
        if not roots:
            return tensor
        matrices = {i: root.unsqueeze(0) for i, root in roots.items()}
        widths = [key[0] for key in others]
        return contraction.multiply_modes(tensor.unsqueeze(0), widths, matrices).squeeze(0)

    def entrywise_root(self, keys: list[Key]) -> Tensor:
        """L with L Lᴴ = R₁ ⊙ … ⊙ R_N, (B or 1, K, K); an identity among them leaves the diagonals."""
        matrices = [self._value(key) for key in keys if self.form(key) is Form.MATRIX]
        identity = torch.eye(keys[0][0], dtype=self.snapshot.dtype, device=self.snapshot.device)
        if not matrices:
            return identity.unsqueeze(0)
        product = contraction.entrywise(matrices)
        if len(matrices) < len(keys):
            diagonal = product.diagonal(dim1=1, dim2=2).real.clamp_min(0)
            return self._repeated(identity * diagonal.sqrt().unsqueeze(1))
        return self._repeated(_square_root(product))

    def masses(self, branches: tuple[Branch, ...], fold: int, amplitudes: list[Tensor]) -> Tensor:
        """∫ |A_i·ℓ_i|² of the inputs of a sum, up to one factor a row: (B, inputs)."""
        found = [self._mass(b, fold, a) for b, a in zip(branches, amplitudes, strict=True)]
        scales = torch.stack([scale for _, scale in found], dim=1)
        largest = scales.amax(dim=1, keepdim=True)
        factors = torch.where(scales == -torch.inf, 0.0, (scales - largest).exp())
        return torch.stack([mass for mass, _ in found], dim=1) * factors

    def _mass(self, branch: Branch, fold: int, amplitude: Tensor) -> tuple[Tensor, Tensor]:
        keys = [(k, slots[fold]) for k, slots in zip(branch.widths, branch.reads, strict=True)]
        scale = amplitude.real.new_zeros(len(amplitude))
        for key in keys:
            scale = scale if self.form(key) is Form.IDENTITY else scale + self._scale(key)
        values = self.observed(keys)
        left = [key for key in keys if key not in values]
        if branch.kind == "hadamard":
            amplitude = contraction.entrywise([amplitude, *values.values()])
            rooted = amplitude.unsqueeze(1) @ self.entrywise_root(left)
        else:
            rooted = self.times_roots(contraction.close_modes(amplitude, keys, values).unsqueeze(1), left)
        return torch.linalg.vector_norm(rooted, dim=(1, 2)).square(), scale

    def _scale(self, key: Key) -> Tensor:
        """The log-scale of R: (B,)."""
        step, row = self.messages.schedule.places[key]
        scale = self.messages.found[step].counted()[row]
        return self._repeated(2 * scale if self.form(key) is Form.VECTOR else scale)

    def _value(self, key: Key) -> Tensor:
        step, row = self.messages.schedule.places[key]
        return self.messages.found[step].value[row]

    def _repeated(self, value: Tensor) -> Tensor:
        """Repeat rows of evidence as rows of samples."""
        if self.rows is None:
            return value
        if len(value) == 1:
            return value.expand(len(self.rows), *value.shape[1:])
        return value.index_select(0, self.rows)


def _square_root(matrix: Tensor) -> Tensor:
    """L with R = L Lᴴ for positive semi-definite matrices that may be singular: (…, K, K).

    Units are brought to length 1 first: those that are small beside others keep their digits, which count
    where a weight above is as large.
    """
    lengths = matrix.diagonal(dim1=-2, dim2=-1).real.clamp_min(0).sqrt().unsqueeze(-1)  # (…, K, 1)
    inverse = torch.where(lengths > 0, 1 / lengths, 0.0)
    unit = matrix * inverse * inverse.mT
    if matrix.is_cuda:
        # Eigenvectors of a batch take a second there. What rounding leaves of a singular matrix may have
        # eigenvalues a little below zero; so much is added that they are positive.
        rounding = torch.finfo(matrix.dtype).eps * matrix.shape[-1]
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        factor, failed = torch.linalg.cholesky_ex(unit + rounding * identity)
        if not bool(failed.any()):
            found: Tensor = lengths * factor
            return found
    values, vectors = torch.linalg.eigh(unit)
    root: Tensor = lengths * vectors * values.clamp_min(0).sqrt().unsqueeze(-2)
    return root
