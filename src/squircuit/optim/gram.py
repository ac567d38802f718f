"""The Gram core: every method on the manifold of semi-unitary matrices in terms of K1×K1 matrices.

With X the weight, M a direction of the same shape, and the Grams S = XXᴴ, C = XMᴴ, T = MMᴴ, every update is
X⁺ = αX + βM with small α and β, and the Gram of any such combination follows without touching K2 again:

    Gram(aX + bM) = a S aᴴ + a C bᴴ + (a C bᴴ)ᴴ + b T bᴴ.

So an exact retraction costs the same memory traffic as no retraction at all: one pass over X and M for the
Grams, one for the update. The small matrices are kept in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from squircuit.execution.precision import double

CHUNK = 1 << 17  # numbers of X that a CPU handles at a time
STEPS = 5  # of Newton–Schulz: quadratic, from a distance of 0.25 to rounding


@final
@dataclass(frozen=True)
class Grams:
    """S = XXᴴ, C = XMᴴ and T = MMᴴ, (S, K1, K1) each, double precision."""

    xx: Tensor
    xm: Tensor
    mm: Tensor

    @classmethod
    def of(cls, x: Tensor, m: Tensor) -> Grams:
        """The Grams of X and M, (S, K1, K2) each, a few matrices at a time so that caches serve all three."""
        step = max(1, CHUNK // max(1, x[0].numel())) if len(x) and not x.is_cuda else max(1, len(x))
        found = [_three(a, b) for a, b in zip(torch.split(x, step), torch.split(m, step), strict=True)]
        return cls(*(torch.cat(part).to(double(x[:0]).dtype) for part in zip(*found, strict=True)))

    @property
    def identity(self) -> Tensor:
        return torch.eye(self.xx.shape[-1], dtype=self.xx.dtype, device=self.xx.device)

    def towards(self, a: Tensor, b: Tensor) -> Tensor:
        """D Xᴴ of D = aX + bM: (S, K1, K1). Zero in its Hermitian part if D is tangent."""
        return a @ self.xx + _times(b, self.xm.mH)

    def combined(self, a: Tensor, b: Tensor) -> Tensor:
        """Gram(aX + bM)."""
        return self._gram(a, b, self.towards(a, b))

    def _gram(self, a: Tensor, b: Tensor, towards: Tensor) -> Tensor:
        # D Dᴴ = (D Xᴴ) aᴴ + (D Mᴴ) bᴴ: the first factor is at hand, the second is aC + bT
        return towards @ a.mH + _times_adjoint(a @ self.xm + _times(b, self.mm), b)

    def line(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """(A, B) with Gram(X − ηD) = S − ηA + η²B along D = aX + bM: A = DXᴴ + XDᴴ, B = DDᴴ."""
        towards = self.towards(a, b)
        return towards + towards.mH, self._gram(a, b, towards)

    def euclidean(self) -> tuple[Tensor, Tensor]:
        """(a, b) of the tangent direction R = M − ½(XMᴴ + MXᴴ)X; b = 1 as a column, (S, K1, 1)."""
        return -0.5 * (self.xm + self.xm.mH), torch.ones_like(self.xx[..., :1])

    def canonical(self) -> tuple[Tensor, Tensor]:
        """(a, b) of the tangent direction R = ½[(XXᴴ)M − (XMᴴ)X], the paper's relative gradient by rows."""
        return -0.5 * self.xm, 0.5 * self.xx

    def scaled(self, a: Tensor, b: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """(a, b) of a tangent direction aX + bM whose rows are multiplied by ``scale``, (S, K1 or 1, 1) real.

        One factor a matrix keeps it tangent. Factors that differ from row to row do not, so the result is
        projected to the tangent space again. (To scale M and project once would have other stationary points:
        R = 0 would no longer mean that the gradient has no tangent part.)
        """
        a, b = scale * a, scale * b
        if scale.shape[-2] == 1:
            return a, b
        # what is not tangent of D is ½(DXᴴ + XDᴴ)X, a multiple of X from the left, so only a changes
        cross = self.towards(a, b)
        return a - 0.5 * (cross + cross.mH), b

    def norm(self, a: Tensor, b: Tensor) -> Tensor:
        """‖aX + bM‖_F of every matrix: (S, 1, 1)."""
        return root_of_trace(self.combined(a, b))


def root_of_trace(gram: Tensor) -> Tensor:
    """‖D‖_F from D Dᴴ: (S, 1, 1)."""
    return gram.diagonal(dim1=-2, dim2=-1).real.sum(dim=-1).clamp_min(0).sqrt()[..., None, None]


def _times(b: Tensor, matrix: Tensor) -> Tensor:
    """b·A, with b a matrix or, as a column (S, K1, 1), a diagonal one."""
    return b * matrix if b.shape[-1] == 1 else b @ matrix


def _times_adjoint(matrix: Tensor, b: Tensor) -> Tensor:
    """A·bᴴ, with b a matrix or, as a column, a diagonal one."""
    return matrix * b.mH if b.shape[-1] == 1 else matrix @ b.mH


def _three(x: Tensor, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All blocks of Z Zᴴ with Z = [X; M]: one product reads X and M once, three would read them twice."""
    z, rows = torch.cat([x, m], dim=1), x.shape[1]
    whole = z @ z.conj().resolve_conj().mT
    return whole[:, :rows, :rows], whole[:, :rows, rows:], whole[:, rows:, rows:]


def inverse_square_root(gram: Tensor, steps: int = STEPS) -> Tensor:
    """B^(-1/2) of Hermitian matrices with eigenvalues in (0, 3), by Newton–Schulz.

    L ← HL, B ← HBH with H = (3I − B)/2. No eigen-decomposition: those are slow on GPUs and wait for the host.
    All matrices are polynomials of B and commute, so B stays Hermitian. An eigenvalue 1 + e of B goes to
    1 − ¾e² + ¼e³; from 3 on that of H is no longer positive, and L would not be the root.
    """
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    root = half = 1.5 * identity - 0.5 * gram
    for _ in range(steps - 1):
        gram = half @ gram @ half
        half = 1.5 * identity - 0.5 * gram
        root = half @ root
    return root
