"""Settings from the environment: GSAT_CACHE, GSAT_DATA, GSAT_KERNELS and GSAT_OFFLINE."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """Folder for downloads and processed data: ``GSAT_CACHE``, else the platform's cache folder."""
    if folder := os.environ.get("GSAT_CACHE"):
        return Path(folder)
    return user_cache_path("gsat", appauthor=False, opinion=False)


def kernel_folder() -> Path:
    """Folder for compiled kernels: ``GSAT_KERNELS``, else ``kernels`` in the platform's cache.

    It contains machine code that will be executed, so only this user may write to it. Several users
    may share ``GSAT_CACHE``, so that variable does not apply.
    """
    if folder := os.environ.get("GSAT_KERNELS"):
        return Path(folder)
    return user_cache_path("gsat", appauthor=False, opinion=False) / "kernels"


def data_folder() -> Path | None:
    """Read-only folder of raw files, ``GSAT_DATA``, or ``None``."""
    folder = os.environ.get("GSAT_DATA")
    return Path(folder) if folder else None


def offline() -> bool:
    """Whether ``GSAT_OFFLINE`` forbids downloads; empty and ``0`` allow them."""
    return os.environ.get("GSAT_OFFLINE", "0") not in ("", "0")
