"""Machine code that is kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compile_once(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on its first call and keep the machine code on disk for later processes.

    Where no folder for it can be written, it is compiled anew in each process.

    Args:
        options: of Numba.
    """
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)
