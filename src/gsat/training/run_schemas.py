"""The schemas of the JSON files of a run directory. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AliasChoices, Field

from gsat.core.parsing import FileModel

Metrics = dict[str, float | None]

# Earlier versions wrote it as "settledness".
_SCORE_STABILITY: Any = Field(None, validation_alias=AliasChoices("score_stability", "settledness"))


class EnvironmentFile(FileModel):
    """``environment.json``."""

    versions: dict[str, str] = Field(default_factory=dict)
    cpu: str | None = None
    threads: int = Field(1, ge=1, le=1024)
    processes: int = Field(1, ge=1, le=1 << 20)
    ops: str | None = None
    recipe_check: str | None = None


class TimingFile(FileModel):
    """``timing.json``."""

    seconds: float = Field(ge=0)
    cpu_seconds: float | None = Field(None, ge=0)  # earlier versions have none
    epochs: int = Field(0, ge=0)


class Pretrained(FileModel):
    """``pretrained`` of a result."""

    test: Metrics


class MemberResult(FileModel):
    """A member in the result of an ensemble."""

    seed: int
    best_epoch: int
    valid: Metrics
    test: Metrics


class ResultFile(FileModel):
    """``result.json``."""

    dataset: str
    method: str
    backbone: str
    seed: int
    best_epoch: int
    selected: str
    valid: Metrics
    test: Metrics
    seconds: float = Field(ge=0)
    cpu_seconds: float | None = Field(None, ge=0)  # earlier versions have none
    pretrained: Pretrained | None = None
    members: list[MemberResult] | None = None


class LogLine(FileModel):
    """A line of ``metrics.jsonl``."""

    phase: str
    epoch: int = Field(ge=0)
    train: Metrics
    valid: Metrics
    score_stability: float | None = _SCORE_STABILITY
    selected: bool = False


class AuditFile(FileModel):
    """``audit.json``; older files have neither an outcome nor evidence against."""

    faithful: bool | None = None
    believe: bool | None = None  # former name
    outcome: Literal["passed", "mixed", "failed"] | None = None
    verdict: str = Field(max_length=2000)
    reasons: list[str]
    against: list[str] = Field(default_factory=list)
    remedy: str | None = Field(None, max_length=200)
    notes: list[str]
    measures: Metrics
    curves: dict[str, list[float | None]]
    graphs: int = Field(ge=0)
    split: str
    best_epoch: int


class BestValues(FileModel):
    """The best epoch, in a checkpoint."""

    epoch: int = Field(ge=0, lt=2**31)
    valid: Metrics
    score_stability: float | None = _SCORE_STABILITY
    top: float | None = None


class LoopValues(FileModel):
    """The plain values of a checkpoint; those of the method are for the method to check."""

    best: BestValues | None
    method: dict[str, Any]
    optimisers: dict[str, list[dict[str, Any]]]


class PretrainedValues(FileModel):
    """The plain values of a pretrained backbone in the cache."""

    epochs: dict[Literal["last", "best"], BestValues]
    log: list[LogLine]
    seconds: float = Field(ge=0)
    cpu_seconds: float | None = Field(None, ge=0)  # earlier versions have none


class Named(FileModel):
    """A table of a recipe with a name."""

    name: str


class Epochs(FileModel):
    """``[training]`` of a recipe."""

    epochs: int


class RecipeSummary(FileModel):
    """The part of a recipe that a list of runs shows."""

    seed: int
    members: int | None = None
    data: Named
    method: Named
    backbone: Named
    training: Epochs
