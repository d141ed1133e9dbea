"""Ensembles: several models that predict and explain as one, by their mean."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from gsat.core.errors import GSATError, RunError
from gsat.core.files import check_no_links, is_regular
from gsat.graphs import GraphBatch, GraphStore
from gsat.models.backbone import Backbone
from gsat.models.interpretable import InterpretableModel
from gsat.models.loading import load_model
from gsat.models.output import ModelOutput, Predictions
from gsat.tasks import Task

if TYPE_CHECKING:
    from torch_geometric.data import Data

MEMBERS = "members"  # folder of the members' runs, in the run directory of an ensemble


class Ensemble(InterpretableModel):
    """Several trained models that predict and explain as one.

    Probabilities (in a regression, numbers) and edge scores are means over the members; their
    standard deviations say how much the members disagree.

    Args:
        members: Models of one task, or the directories of their runs.

    Raises:
        GSATError: If there are none, or they do not fit together.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("ba2motifs", graphs=20)
        >>> models = [gsat.GSAT(gsat.GIN.for_data(data, hidden=8, seed=s), seed=s) for s in (0, 1)]
        >>> explanation = gsat.Ensemble(models).explain(data.test[0])
        >>> explanation.edge_mask.shape == explanation.edge_spread.shape
        True
    """

    def __init__(self, members: Sequence[InterpretableModel | str | Path]) -> None:
        super().__init__()
        models = [load_model(m) if isinstance(m, str | Path) else m for m in members]
        _check_alike(models)
        self.members = nn.ModuleList(models)
        first = models[0]
        self.task, self.on, self.input = first.task, first.on, first.input
        self.r = first.r if all(model.r == first.r for model in models) else None
        self.settings = {"members": len(models)}
        self.explains = all(model.explains for model in models)
        self.attention_decides = all(model.attention_decides for model in models)

    @property
    def _members(self) -> list[InterpretableModel]:
        return cast("list[InterpretableModel]", list(self.members))

    @property
    def backbone(self) -> Backbone:  # type: ignore[override]
        """The network of the first member."""
        return self._members[0].backbone

    # An ensemble can do what all of its members can do.

    @property
    def answers(self) -> bool:
        """Whether all members can predict under given attention."""
        return all(member.answers for member in self._members)

    @property
    def rescores(self) -> bool:
        """Whether all members can explain an attended graph."""
        return all(member.rescores for member in self._members)

    @property
    def untrained(self) -> bool:
        """Whether the weights of a member seem to be the initial ones."""
        return any(member.untrained for member in self._members)

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Compute the means of the members' probabilities and edge scores.

        Args:
            batch: The graphs.

        Returns:
            Logits of the mean probabilities, mean scores, and the standard deviations of both.
        """
        outputs = [member(batch) for member in self._members]
        logits = torch.stack([output.logits for output in outputs])
        scores = torch.stack([output.edge_weight for output in outputs])
        probability = torch.stack([output.probability for output in outputs])
        return ModelOutput(
            mean_logits(self.task, logits),
            scores.mean(dim=0),
            torch.stack([output.attention for output in outputs]).mean(dim=0),
            probability.mean(dim=0),
            scores.std(dim=0, correction=0),
            spread_of_answers(self.task, logits),
            probability if self.on == "node" else scores,
        )

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """The mean of the members' predictions."""
        logits = torch.stack([member.predict_batch(batch) for member in self._members])
        return mean_logits(self.task, logits)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Settings that no member is trained with and that may help."""
        common = set.intersection(*(set(member.remedies) for member in self._members))
        return tuple(s for s in self._members[0].remedies if s in common and s != "members=3")

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """The mean of the members' predictions, all under the same attention."""
        logits = torch.stack([member.answer(batch, attention) for member in self._members])
        return mean_logits(self.task, logits)

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """The mean of the members' scores of the attended graph."""
        scores = [member.rescore(batch, attention) for member in self._members]
        return torch.stack(scores).mean(dim=0)

    def predict_with_spread(
        self, graphs: Data | GraphStore | Iterable[Data], batch_size: int = 256
    ) -> tuple[Predictions, Tensor | None]:
        """Predict graphs, with the standard deviation over the members."""
        logits = torch.stack([m.predict(graphs, batch_size).logits for m in self._members])
        mean = mean_logits(self.task, logits)
        return self._predictions(mean), spread_of_answers(self.task, logits)

    def refined(self, passes: int) -> Self:
        """Return the same ensemble, each member of which has refinement passes."""
        view = copy.copy(self)
        view._modules = {
            **self._modules,
            "members": nn.ModuleList(member.refined(passes) for member in self._members),
        }
        return view

    def save(self, folder: str | Path) -> None:
        """Raise a :class:`GSATError`: save each of the members instead."""
        raise GSATError(
            f"an ensemble is not saved as one model, here to {folder}: save each of its members, "
            "and make it again by gsat.Ensemble([folder, …])"
        )


def load_any(path: str | Path) -> InterpretableModel:
    """Load the model of a run, or the models of an ensemble's run as one."""
    members = Path(path) / MEMBERS
    if not members.is_dir():
        return load_model(path)
    check_no_links(Path(path))
    if not is_regular(Path(path) / "result.json"):
        raise RunError(f"{path} is not finished; resume it with: gsat resume {path}")
    folders = [folder for folder in members.glob("seed-*") if folder.name[5:].isdecimal()]
    folders.sort(key=lambda folder: int(folder.name[5:]))
    return Ensemble([load_model(folder) for folder in folders])


def mean_logits(task: Task, logits: Tensor) -> Tensor:
    """The logits of the mean probabilities of several models; in a regression, their mean."""
    if task.kind == "regression":
        return logits.mean(dim=0)
    # Sums of logarithms, so that probabilities close to 0 and 1 keep their digits.
    if task.kind == "multiclass":
        return logits.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))
    return logsigmoid(logits).logsumexp(dim=0) - logsigmoid(-logits).logsumexp(dim=0)


def spread_of_answers(task: Task, logits: Tensor) -> Tensor:
    """The standard deviation of the probabilities or numbers of several models."""
    if task.kind == "regression":
        answers = torch.stack([task.in_units(part) for part in logits])
    else:
        answers = torch.stack([task.probabilities(part) for part in logits])
    return answers.std(dim=0, correction=0)


def _check_alike(models: Sequence[InterpretableModel]) -> None:
    """Raise unless models have the same task, input and level of attention."""
    if not models:
        raise GSATError("an ensemble needs at least one model")
    first = models[0]
    for number, model in enumerate(models[1:], start=1):
        for what, one, other in (
            ("task", first.task.as_dict(), model.task.as_dict()),
            ("attention", first.on, model.on),
            ("input", first.input, model.input),
            (
                "number of features",
                first.network.get("in_features"),
                model.network.get("in_features"),
            ),
        ):
            if one != other:
                raise GSATError(
                    f"the members of an ensemble have to fit together: the {what} of member "
                    f"{number} is not that of member 0"
                )
