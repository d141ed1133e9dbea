"""What a run records of a wrapped network. Apart from the wrapping, which imports all of PyG."""

from __future__ import annotations

from pydantic import Field

from gsat.core.errors import GSATError
from gsat.models.backbone import BackboneSettings


class WrappedSettings(BackboneSettings):
    """``[backbone]`` of a network of the user's own; it can't be made from its description."""

    module: str = Field("unknown", description="What the network is, in words.")


def own_module(described: str | None) -> GSATError:
    """Return the error that asks for the network of a run."""
    return GSATError(
        f"this run's backbone is your own module ({shorten(described or 'unknown')}): make the "
        f"model again and pass model= to gsat.load or gsat.resume in Python"
    )


def shorten(text: str, width: int = 200) -> str:
    """Cut a text that is too long for a message."""
    return text if len(text) <= width else f"{text[: width - 1]}…"
