"""Fragments with scores and effects, against sums by hand and a model whose effects are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rdkit import Chem

from explained_molecules import AtomCounter, explained, explanation_of
from gsat.core.errors import DataError, GSATError
from gsat.explain import fragments as module
from gsat.explain.fragments import ScoredFragment, log_odds, measure_effects, score_fragments
from gsat.explain.molecules import ExplainedMolecule, explain_molecules, find_target, output_names
from gsat.graphs import GraphStore
from gsat.graphs.subgraph import node_subgraph
from gsat.methods.gnnexplainer import GNNExplainer
from gsat.models import GIN
from gsat.molecules import featurise
from gsat.molecules.featuriser import ATOM_FEATURES
from gsat.tasks import Task

NITRO = "O=[N+]([O-])c1ccccc1C"
MOLECULES = [NITRO, "CC(=O)N1CCCCC1", "c1ccccc1", "Nc1ccncc1", "C", "[Na+].[Cl-]"]


def named(molecule: ExplainedMolecule, name: str) -> ScoredFragment:
    """The fragment of a molecule with a name."""
    return next(fragment for fragment in molecule.fragments if fragment.name == name)


def test_the_score_of_a_fragment_is_the_mean_of_its_bonds() -> None:
    found = explained(NITRO, {(0, 1): 0.9, (1, 2): 0.7, (1, 3): 0.5}).fragments
    nitro = found[0]
    assert (nitro.name, nitro.used) == ("nitro", True)
    assert nitro.score == pytest.approx((0.9 + 0.7) / 2)
    assert nitro.total == pytest.approx(0.9 + 0.7)
    assert [fragment.used for fragment in found[1:]] == [False, False]
    assert [fragment.score for fragment in found] == sorted((p.score for p in found), reverse=True)


def test_a_fragment_of_one_atom_has_the_score_of_the_bonds_around_it() -> None:
    methyl = named(explained(NITRO, {(8, 9): 0.8}), "methyl")
    assert (methyl.score, methyl.total) == (pytest.approx(0.8), pytest.approx(0.8))


def test_where_the_model_attends_to_nodes_atoms_have_the_scores() -> None:
    own = torch.full((10, 1), 0.1)
    own[:3, 0] = torch.tensor([0.9, 0.8, 0.7])
    explanation = explanation_of(NITRO, {(8, 9): 1.0}, node_mask=own)
    nitro, *others = score_fragments(explanation, Chem.MolFromSmiles(NITRO))
    assert (nitro.name, nitro.used) == ("nitro", True)
    assert (nitro.score, nitro.total) == (pytest.approx(0.8), pytest.approx(2.4))
    assert not any(fragment.used for fragment in others)


@pytest.mark.parametrize("smiles", ["CC(=O)NCc1ccc(OC)cc1" * 8, "C1CC1.CO.[Na+].C#N", "C"])
def test_scores_of_fragments_are_those_of_a_mask_of_all_bonds(smiles: str) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    draws = np.random.default_rng(0)
    bonds = {tuple(sorted(bond)): float(draws.random()) for bond in _bonds(smiles)}
    explanation = explanation_of(smiles, bonds)
    ends, scores = explanation.edge_index.numpy(), explanation.edge_mask.numpy().astype(float)
    for fragment in score_fragments(explanation, molecule):
        member = np.isin(ends, fragment.atoms)
        chosen = member.all(axis=0) if member.all(axis=0).any() else member.any(axis=0)
        assert fragment.score == (scores[chosen].mean() if chosen.any() else 0.0)


def test_effects_are_measured_up_to_a_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = [NITRO, "CCO"]
    model, graphs = AtomCounter({7: 1.0, 8: 2.0}), featurise(smiles)
    scored = [score_fragments(explanation_of(s), Chem.MolFromSmiles(s)) for s in smiles]
    before = measure_effects(model, graphs, scored, torch.zeros(2, 1))
    assert all(fragment.effects is not None for fragment in (*before[0], *before[1]))
    monkeypatch.setattr(module, "_MOST_NODES", 20)  # two copies of the first molecule
    after = measure_effects(model, graphs, scored, torch.zeros(2, 1))
    assert after[0][:2] == before[0][:2]
    assert after[0][2:] == scored[0][2:]
    assert after[1] == before[1]


def test_an_atom_without_bonds_has_no_score() -> None:
    assert named(explained("[Na+].CCO", {(1, 2): 0.9}), "[Na+]").score == 0


def test_a_fragment_is_used_only_above_r_and_above_the_middle() -> None:
    below_r = explained(NITRO, {(0, 1): 0.45, (1, 2): 0.45})
    assert not any(fragment.used for fragment in below_r.fragments)
    # Everything is above r = 0.5; the fragment that stands out is above the middle, 0.8, too.
    scores = {tuple(sorted(bond)): 0.7 for bond in _bonds(NITRO)} | {(0, 1): 0.9, (1, 2): 0.9}
    assert [fragment.name for fragment in explained(NITRO, scores).fragments if fragment.used] == [
        "nitro"
    ]


def test_nothing_is_used_where_nothing_stands_out() -> None:
    scores = {tuple(sorted(bond)): 0.51 for bond in _bonds(NITRO)}
    assert not any(fragment.used for fragment in explained(NITRO, scores).fragments)


def _bonds(smiles: str) -> list[tuple[int, int]]:
    molecule = Chem.MolFromSmiles(smiles)
    return [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]


@pytest.mark.parametrize("batch", [1, 20, 1 << 13])
def test_effects_are_those_of_the_atoms_taken_out(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_NODES", batch)
    weights = {6: 1.0, 7: -10.0, 8: 100.0}
    model, store = AtomCounter(weights), featurise(MOLECULES)
    for molecule in _explained(model, store):
        for fragment in molecule.fragments:
            atoms = [molecule.molecule.GetAtomWithIdx(i) for i in fragment.atoms]
            expected = sum(weights.get(atom.GetAtomicNum(), 0) for atom in atoms)
            if len(atoms) == molecule.molecule.GetNumAtoms():
                assert fragment.effects is None
            else:
                assert fragment.effects == (pytest.approx(expected),)
                assert molecule.effect(fragment) == pytest.approx(expected)


def test_effects_of_a_classifier_are_changes_of_probabilities() -> None:
    model, store = AtomCounter({7: 2.0}, "binary"), featurise(["Nc1ccccc1"])
    (molecule,) = _explained(model, store)
    amine = named(molecule, "primary aromatic amine")
    change = float(torch.sigmoid(torch.tensor(2.0))) - 0.5
    assert amine.effects == (pytest.approx(-change), pytest.approx(change))
    assert molecule.target == 1


def test_effects_on_log_odds_do_not_vanish_where_the_model_is_sure() -> None:
    model, store = AtomCounter({7: 2.0, 6: 10.0}, "binary"), featurise(["Nc1ccccc1"])
    (molecule,) = _explained(model, store)
    amine = named(molecule, "primary aromatic amine")
    assert molecule.effect(amine) == pytest.approx(0.0, abs=1e-6)
    assert molecule.log_odds(amine) == pytest.approx(2.0)
    assert amine.log_odds == (pytest.approx(-2.0), pytest.approx(2.0))
    (number,) = _explained(AtomCounter({7: 2.0}), store)
    assert all(number.log_odds(fragment) is None for fragment in number.fragments)


@pytest.mark.parametrize("task", [Task("multiclass", 3), Task("multilabel", 3, "roc_auc")])
def test_log_odds_are_those_of_the_probabilities(task: Task) -> None:
    logits = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.1, 0.0]])
    p = task.probabilities(logits.double()).numpy()
    np.testing.assert_allclose(log_odds(task, logits), np.log(p / (1 - p)), rtol=1e-12)


def _explained(model: AtomCounter, store: GraphStore) -> list[ExplainedMolecule]:
    return explain_molecules(model, store, model.explain(store))


def test_effects_of_a_network_explained_afterwards_are_those_of_the_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = featurise(["Nc1ccccc1"])
    network = GIN(
        10, task=Task("binary"), edge_features=8, categories=list(ATOM_FEATURES.values()), hidden=8
    ).eval()
    model = GNNExplainer(network, iterations=2)
    explanations = model.explain(store)
    monkeypatch.setattr(model, "forward", None)  # it would search for an explanation
    (molecule,) = explain_molecules(model, store, explanations)
    amine = named(molecule, "primary aromatic amine")
    with torch.no_grad():
        ring, _ = node_subgraph(store.batch(), torch.tensor([False] + [True] * 6))
        whole, without = network(store.batch()).sigmoid(), network(ring).sigmoid()
    assert amine.effects is not None
    assert amine.effects[1] == pytest.approx(float(whole - without), abs=1e-6)


def test_molecules_without_fragments_to_take_out_have_no_effects() -> None:
    store = featurise(["C"])
    own = [score_fragments(explanation_of("C"), Chem.MolFromSmiles("C"))]
    assert measure_effects(AtomCounter({}), store, own, torch.zeros(1, 1)) == own


def test_graphs_without_smiles_are_refused() -> None:
    store = featurise(["CC"])
    del store.arrays["graph.smiles"]
    with pytest.raises(DataError):
        explain_molecules(AtomCounter({}), store, [])


def test_outputs_have_names_and_are_found_by_them() -> None:
    binary, numbers = Task("binary"), Task("regression", 1, "r2")
    assert output_names(binary, ["no", "yes"]) == ["no", "yes"]
    assert output_names(binary, None) == ["class 0", "class 1"]
    assert output_names(numbers, None) == ["prediction"]
    assert find_target("yes", ["no", "yes"]) == 1
    assert find_target(None, ["no", "yes"]) is None
    with pytest.raises(GSATError, match="there is no class or label 'maybe': there are no, yes"):
        find_target("maybe", ["no", "yes"])


def test_all_that_is_known_is_in_the_dictionary() -> None:
    model, store = AtomCounter({7: 2.0}), featurise([NITRO])
    values = _explained(model, store)[0].as_dict()
    nitro = next(fragment for fragment in values["fragments"] if fragment["name"] == "nitro")
    assert nitro["atoms"] == [0, 1, 2]
    assert nitro["effects"] == [pytest.approx(2.0)]
    assert values["smiles"] == NITRO
    assert len(values["edges"]) == 2 * len(_bonds(NITRO))
