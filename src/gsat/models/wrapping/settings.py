"""The record of a wrapped network; apart from the wrapping itself, which imports all of PyG."""

from __future__ import annotations

from pydantic import Field

from gsat.core.errors import GSATError
from gsat.models.backbone import BackboneSettings


class WrappedSettings(BackboneSettings):
    """``[backbone]`` of a wrapped network, which its description can't rebuild."""

    module: str = Field("unknown", description="Description of the network.")


def own_module(described: str | None) -> GSATError:
    """The error that asks for the network of a run."""
    return GSATError(
        f"this run's backbone is your own module ({shorten(described or 'unknown')}): make the "
        f"model again and pass model= to gsat.load or gsat.resume in Python"
    )


def shorten(text: str, width: int = 200) -> str:
    """Cut a text to a length that fits into a message."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
