"""Explained molecules: scores, fragments with their effects, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from gsat.core.errors import DataError, GSATError
from gsat.explain.fragments import ScoredFragment, measure_effects, score_fragments
from gsat.graphs import GraphStore
from gsat.launch.progress import Progress
from gsat.models import InterpretableModel
from gsat.molecules import SMILES, molecule_of
from gsat.molecules.fingerprints import NearestMolecules, Neighbour
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.explanation import Explanation


# Tanimoto similarity of Morgan fingerprints: two unrelated drugs seldom reach this.
FAR: Final = 0.3


@dataclass(frozen=True)
class ExplainedMolecule:
    """A molecule with its prediction, scores, fragments and warnings."""

    explanation: Explanation
    molecule: Any  # RDKit's ``Mol``, whose atoms are the nodes of the graph
    fragments: tuple[ScoredFragment, ...]  # the highest score first
    target: int  # the class, label or number that effects are shown for
    number: int = 0  # position among the explained molecules
    name: str = ""
    line: int | None = None  # in its table
    nearest: tuple[Neighbour, ...] | None = None  # the most similar training molecules
    notes: tuple[str, ...] = ()  # warnings

    @property
    def pieces(self) -> tuple[ScoredFragment, ...]:
        """Former name of the fragments."""
        return self.fragments

    @property
    def smiles(self) -> str:
        """The SMILES that the graph was made of."""
        return str(self.explanation.smiles)

    def effect(self, fragment: ScoredFragment) -> float | None:
        """Return the effect of a fragment on the target; None if it was not measured."""
        return None if fragment.effects is None else fragment.effects[self.target]

    def log_odds(self, fragment: ScoredFragment) -> float | None:
        """Return the effect of a fragment on the log-odds of the target; None in a regression."""
        return None if fragment.log_odds is None else fragment.log_odds[self.target]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = self.explanation.as_dict()
        values |= {"smiles": self.smiles, "id": self.name or None, "line": self.line}
        values["fragments"] = values["pieces"] = [  # the second is the former key
            {
                "name": fragment.name,
                "kind": fragment.kind,
                "smiles": fragment.smiles,
                "atoms": list(fragment.atoms),
                "score": fragment.score,
                "total": fragment.total,
                "in_explanation": fragment.used,
                "effects": None if fragment.effects is None else list(fragment.effects),
                "log_odds": None if fragment.log_odds is None else list(fragment.log_odds),
            }
            for fragment in self.fragments
        ]
        near = None if self.nearest is None else [neighbour._asdict() for neighbour in self.nearest]
        return {**values, "target": self.target, "nearest": near, "notes": list(self.notes)}


@dataclass(frozen=True)
class ReportInfo:
    """Head of a report on molecules."""

    title: str
    outputs: Sequence[str]  # names of the classes, labels or numbers that have effects
    about: Sequence[str] = ()  # lines on the model and the data
    notes: Sequence[str] = ()  # warnings about all molecules
    regression: bool = False
    rejected: Sequence[Sequence[Any]] = ()  # line, name, text and reason of each unusable row

    def effect_of(self, target: int) -> str:
        """Name the quantity that effects on an output change."""
        return self.outputs[target] if self.regression else f"p({self.outputs[target]})"


@dataclass(frozen=True)
class MoleculeReport:
    """Explained molecules of one model, which write themselves to files."""

    molecules: Sequence[ExplainedMolecule]
    info: ReportInfo
    task: Task

    def __len__(self) -> int:
        return len(self.molecules)

    def __getitem__(self, position: int) -> ExplainedMolecule:
        return self.molecules[position]

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write a page (``.html``), a table (``.csv``), JSON, or a picture of one molecule."""
        from gsat.draw.export import write_molecules

        return write_molecules(self, path, **options)


def explain_molecules(
    model: InterpretableModel,
    graphs: GraphStore,
    explanations: Sequence[Explanation],
    *,
    target: int | None = None,
    nearest: NearestMolecules | None = None,
    effects: bool = True,
) -> list[ExplainedMolecule]:
    """Add fragments, their effects and the nearest training molecules to explanations."""
    if not graphs.has(SMILES):
        raise DataError("these graphs are not molecules: they carry no SMILES")
    progress = Progress("molecules")
    progress.start(len(explanations))
    try:
        molecules, fragments = [], []
        for explanation in explanations:
            molecule = molecule_of(str(explanation.smiles), int(explanation.num_nodes))
            molecules.append(molecule)
            fragments.append(score_fragments(explanation, molecule))
            progress.advance()
    finally:
        progress.stop()
    if effects and explanations:
        logits = torch.stack([explanation.logits for explanation in explanations])
        fragments = measure_effects(model, graphs, fragments, logits)
    names = graphs.texts("id") if graphs.has("id") else [""] * len(graphs)
    lines = graphs.per_graph("line").tolist() if graphs.has("line") else [None] * len(graphs)
    out = []
    for number, (explanation, listed) in enumerate(zip(explanations, fragments, strict=True)):
        near = None if nearest is None else tuple(nearest.nearest(str(explanation.smiles)))
        out.append(
            ExplainedMolecule(
                explanation,
                molecules[number],
                tuple(listed),
                target=shown_target(model.task, explanation) if target is None else target,
                number=number,
                name=names[number],
                line=lines[number],
                nearest=near,
                notes=tuple(molecule_notes(explanation, near)),
            )
        )
    return out


def molecule_notes(explanation: Explanation, nearest: Sequence[Neighbour] | None) -> list[str]:
    """List the evidence against the explanation of one molecule."""
    notes = []
    if nearest is not None:
        similarity = nearest[0].similarity if nearest else 0.0
        if similarity < FAR:
            notes.append(
                f"far from all training molecules: the most similar one has a Tanimoto similarity "
                f"of {similarity:.2f}, below {FAR:g}"
            )
    if not explanation.found:
        notes.append(explanation.message)
    return notes


def shown_target(task: Task, explanation: Explanation) -> int:
    """Return the default target of effects."""
    if task.kind == "multiclass":
        return int(explanation.prediction)
    return 1 if task.kind == "binary" else 0


def output_names(task: Task, names: Sequence[str] | None) -> list[str]:
    """Name the outputs that have effects: the classes, labels or numbers."""
    count = task.classes
    if names is not None and len(names) == count:
        return [str(name) for name in names]
    if task.kind == "regression":
        return ["prediction"] if count == 1 else [f"number {i}" for i in range(count)]
    return [f"{'label' if task.kind == 'multilabel' else 'class'} {i}" for i in range(count)]


def find_target(wanted: str | None, names: Iterable[str]) -> int | None:
    """Find a class, label or number by its name."""
    listed = list(names)
    if wanted is None:
        return None
    if wanted not in listed:
        raise GSATError(f"there is no class or label '{wanted}': there are {', '.join(listed)}")
    return listed.index(wanted)
