"""Explained molecules for tests: scores by fragment, and a model whose effects are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rdkit import Chem

from gsat.explain.fragments import ScoredFragment, score_fragments
from gsat.explain.molecules import ExplainedMolecule
from gsat.explanation import Explanation
from gsat.graphs import GraphBatch
from gsat.models import GIN, InterpretableModel, ModelOutput
from gsat.molecules import featurise
from gsat.tasks import Task


def explanation_of(
    smiles: str, high: Mapping[tuple[int, int], float] | None = None, **more: Any
) -> Explanation:
    """An explanation of a molecule: bonds in ``high`` have that score, all others 0.1."""
    graph = featurise([smiles])[0]
    out = Explanation(edge_index=graph.edge_index, num_nodes=graph.num_nodes, smiles=smiles)
    scores = {frozenset(ends): score for ends, score in (high or {}).items()}
    ends = graph.edge_index.T.tolist()
    out.edge_mask = torch.tensor([scores.get(frozenset(pair), 0.1) for pair in ends])
    out.undirected, out.r = True, 0.5
    out.probabilities = torch.tensor([0.2, 0.8])
    out.prediction = torch.tensor(1)
    out.logits = torch.tensor([1.386])
    for name, value in more.items():
        out[name] = value
    return out


def explained(smiles: str, high: Mapping[tuple[int, int], float], **more: Any) -> ExplainedMolecule:
    """An explained molecule without effects."""
    explanation = explanation_of(smiles, high)
    molecule = Chem.MolFromSmiles(smiles)
    fragments: tuple[ScoredFragment, ...] = tuple(score_fragments(explanation, molecule))
    return ExplainedMolecule(explanation, molecule, fragments, **{"target": 1, **more})


class AtomCounter(InterpretableModel):
    """Predicts a sum of weights of atoms by element, so that effects are known exactly."""

    def __init__(self, weights: Mapping[int, float], kind: str = "regression") -> None:
        super().__init__()
        self.task = Task("regression", 1, "r2") if kind == "regression" else Task("binary")
        self.backbone = GIN(10, task=self.task, hidden=8)
        self.on, self.r = "edge", None
        self.register_buffer("weights", torch.zeros(119))
        for element, weight in weights.items():
            self.weights[element] = weight

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Sum the weights of the atoms of each molecule."""
        value = self.weights[batch.x[:, 0].long()]
        total = torch.zeros(batch.num_graphs).index_add(0, batch.node_graph, value)
        score = torch.ones(batch.num_edges)
        return ModelOutput(total[:, None], score, score, score)
