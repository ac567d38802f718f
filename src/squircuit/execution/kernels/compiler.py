"""Triton, which compiles the kernels, or None in its place on machines that have none.

Every file of kernels imports both names from here and defines its kernels only ``if triton is not None``; its
function ``usable`` then sends callers to the twin in plain torch.
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - depends on the machine
    triton = tl = None

__all__ = ["tl", "triton"]
