"""What ``GSAT_CACHE``, ``GSAT_DATA``, ``GSAT_KERNELS`` and ``GSAT_OFFLINE`` set."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    r"""The folder for downloads and processed data: ``GSAT_CACHE``, else the platform's cache.

    That is ``~/.cache/gsat`` on Linux, ``~/Library/Caches/gsat`` on macOS and
    ``%LOCALAPPDATA%\gsat`` on Windows. It need not exist.
    """
    if chosen := os.environ.get("GSAT_CACHE"):
        return Path(chosen)
    return user_cache_path("gsat", appauthor=False, opinion=False)


def kernel_folder() -> Path:
    """The folder for compiled kernels: ``GSAT_KERNELS``, else ``kernels`` in the platform's cache.

    It holds machine code that will be run, so it must be this user's alone. ``GSAT_CACHE``, which
    several users may share, does not move it.
    """
    if chosen := os.environ.get("GSAT_KERNELS"):
        return Path(chosen)
    return user_cache_path("gsat", appauthor=False, opinion=False) / "kernels"


def data_folder() -> Path | None:
    """The folder of raw files that ``GSAT_DATA`` names, or ``None``; nothing is written there."""
    chosen = os.environ.get("GSAT_DATA")
    return Path(chosen) if chosen else None


def offline() -> bool:
    """Whether ``GSAT_OFFLINE`` forbids downloads; an empty value and ``0`` do not."""
    return os.environ.get("GSAT_OFFLINE", "0") not in ("", "0")
