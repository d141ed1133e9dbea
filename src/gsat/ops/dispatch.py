"""The choice between the plain definition of an op and its compiled form.

``GSAT_OPS=torch`` selects the plain definition everywhere; ``GSAT_OPS=numba`` (the default) selects
the compiled form wherever there is one, that is, on the CPU in float32.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from gsat.core.errors import GSATError
from gsat.ops.numba import matmul

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def engine() -> str:
    """Return the selected form of the ops, ``"numba"`` or ``"torch"``."""
    chosen = os.environ.get("GSAT_OPS", "numba")
    if chosen not in ("numba", "torch"):
        raise GSATError(f"GSAT_OPS is 'numba' or 'torch', not {chosen!r}")
    return chosen


def compilable(*values: Any) -> bool:
    """Whether all tensors among the values (or in tuples) are on the CPU, floats in float32."""
    for value in values:
        if isinstance(value, Tensor):
            if value.device.type != "cpu":
                return False
            if value.dtype != torch.float32 and value.is_floating_point():
                return False
        elif isinstance(value, tuple) and not compilable(*value):
            return False
    return True


def op(
    compiled: str, *, fused: bool = False, when: Callable[..., bool] | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Declare an op: the decorated function defines it, and ``compiled`` is its faster form.

    ``compiled`` is ``"module.name"`` in :mod:`gsat.ops.numba`, an autograd function or a plain one
    of the same arguments, imported on its first call. It runs where all tensors are on the CPU in
    float32, and ``when(*arguments)`` holds. A ``fused`` form has matrix products inside; these need
    MKL's, which torch includes on x86 CPUs.
    """
    module, _, name = compiled.partition(".")

    def decorate(definition: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(definition)

        @functools.wraps(definition)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            values: tuple[Any, ...] = args
            if kwargs or len(args) < len(signature.parameters):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                values = bound.args
            if (
                engine() == "numba"
                and compilable(*values)
                and (when is None or when(*values))
                and not (fused and matmul.sgemm_address() == 0)
            ):
                form = getattr(importlib.import_module(f"gsat.ops.numba.{module}"), name)
                return getattr(form, "apply", form)(*values)
            return definition(*args, **kwargs)

        return call

    return decorate
