"""The tables of a recipe that are not a method's own: the data set and the backbones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from gsat.datasets.registry import is_path
from gsat.models.pna import Scaler
from gsat.ops import AGGREGATORS, Aggregator


class Settings(BaseModel):
    """Base of all tables."""

    # Strict: "3" is not 3 and 0.5 is not a number of epochs; a wrong type is said, not guessed.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DataSettings(Settings):
    """``[data]``: the data set; its own options stand beside the name.

    Attributes:
        data_seed: decides generated data. split_seed: decides the split; the run's seed if absent.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    name: str
    data_seed: NonNegativeInt = 0
    split_seed: NonNegativeInt | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The data set's own options."""
        return dict(self.model_extra or {})

    @property
    def label(self) -> str:
        """A short name: that of the file or folder, where the data is at a path."""
        return Path(self.name).name.split(".")[0] if is_path(self.name) else self.name


class GINSettings(Settings):
    """``[backbone]`` of GIN; ``edge_features=false`` leaves edge attributes aside."""

    name: Literal["gin"] = "gin"
    hidden: PositiveInt = 64
    layers: PositiveInt = 2
    dropout: float = Field(0.3, ge=0, lt=1)
    edge_features: bool = True


class PNASettings(Settings):
    """``[backbone]`` of PNA: which aggregations stand side by side, and how degrees scale them."""

    name: Literal["pna"] = "pna"
    hidden: PositiveInt = 80
    layers: PositiveInt = 4
    dropout: float = Field(0.3, ge=0, lt=1)
    edge_features: bool = True
    aggregators: list[Aggregator] = Field(list(AGGREGATORS), min_length=1)
    scalers: list[Scaler] = []


class LEConvSettings(Settings):
    """``[backbone]`` of the LEConv network."""

    name: Literal["leconv"] = "leconv"
    hidden: PositiveInt = 32
    layers: PositiveInt = 2
    dropout: float = Field(0.0, ge=0, lt=1)
    edge_features: bool = True


class WrappedSettings(Settings):
    """``[backbone]`` of a network of the caller's own, which ``module`` describes: it can't be made
    from that."""

    name: Literal["wrapped"] = "wrapped"
    module: str = "unknown"


# One type each: a setting of one backbone is not part of another one's recipe and hash.
BACKBONE_SETTINGS: dict[str, type[Settings]] = {
    "gin": GINSettings,
    "pna": PNASettings,
    "leconv": LEConvSettings,
    "wrapped": WrappedSettings,
}
