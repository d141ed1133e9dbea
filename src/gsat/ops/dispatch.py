"""Which form of an op runs: the plain torch form or the compiled one.

``GSAT_OPS=torch`` selects the plain form everywhere; ``GSAT_OPS=numba`` (the default) selects the
compiled form where there is one, that is, on the CPU in float32.
"""

from __future__ import annotations

import os

import torch
from torch import Tensor

from gsat.core.errors import GSATError
from gsat.ops.numba import matmul


def engine() -> str:
    """Return the selected form of the ops, ``"numba"`` or ``"torch"``.

    Raises:
        GSATError: If the environment variable ``GSAT_OPS`` has another value.
    """
    chosen = os.environ.get("GSAT_OPS", "numba")
    if chosen not in ("numba", "torch"):
        raise GSATError(f"GSAT_OPS is 'numba' or 'torch', not {chosen!r}")
    return chosen


def use_numba(*tensors: Tensor | None) -> bool:
    """Return whether the compiled form is selected and takes these tensors (None: no tensor)."""
    return engine() == "numba" and all(
        t is None or (t.device.type == "cpu" and t.dtype == torch.float32) for t in tensors
    )


def use_fused(*tensors: Tensor | None) -> bool:
    """Return whether a compiled form with matrix products inside takes these tensors.

    It needs the matrix product of MKL, which torch brings along on x86 CPUs.
    """
    return use_numba(*tensors) and matmul.sgemm_address() != 0
