"""Run folders written by version 0.1 still open and give the same answers.

``tests/data/runs-0.1`` holds a plain run, an ensemble, a run on molecules and a wrapped network.
``expected.json`` holds what version 0.1 said about them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, global_add_pool

import gsat

RUNS = Path(__file__).parent / "data" / "runs-0.1"
EXPECTED: dict[str, Any] = json.loads((RUNS / "expected.json").read_text())


def _perceptron(inputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, 8))


class Net(nn.Module):
    """The network of the wrapped run; its class name is part of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GINConv(_perceptron(10))
        self.conv2 = GINConv(_perceptron(8))
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        return self.head(global_add_pool(x, batch))


def _open(name: str, folder: Path) -> gsat.Run:
    shutil.copytree(RUNS, folder, dirs_exist_ok=True)
    if name != "wrapped":
        return gsat.open_run(folder / name)
    data = gsat.load_dataset("ba2motifs", graphs=40)
    model = gsat.GSAT(gsat.wrap(Net(), task=data.task))
    return gsat.open_run(folder / name, model=model)


@pytest.mark.parametrize("name", EXPECTED)
def test_answers_are_those_of_the_old_version(name: str, tmp_path: Path) -> None:
    run, expected = _open(name, tmp_path), EXPECTED[name]
    where: dict[str, Any] = {"split": "valid"}
    if name == "molecules":
        where = {"data": tmp_path / "molecules.csv"}
    assert run.test == expected["test"]
    probabilities = run.predict(**where).probabilities[:5].reshape(-1)
    torch.testing.assert_close(
        torch.as_tensor(probabilities, dtype=torch.float64),
        torch.tensor(expected["probabilities"], dtype=torch.float64).reshape(-1),
        rtol=0,
        atol=2e-5,
    )
    explanations = run.explain(**where)[:3]
    for explanation, scores in zip(explanations, expected["edge_mask"], strict=True):
        torch.testing.assert_close(explanation.edge_mask, torch.tensor(scores), rtol=0, atol=2e-5)


def test_an_old_audit_and_an_old_log_are_read(tmp_path: Path) -> None:
    run = _open("plain", tmp_path)
    kept = json.loads((RUNS / "plain" / "audit.json").read_text())
    assert run.last_audit is not None
    assert run.last_audit["split"] == kept["split"] == "valid"
    assert [line["epoch"] for line in run.log] == [0, 1, 2]


def test_an_old_checkpoint_is_resumed(tmp_path: Path) -> None:
    before = _open("plain", tmp_path).result
    (tmp_path / "plain" / "result.json").unlink()
    after = gsat.resume(tmp_path / "plain").result
    assert after["best_epoch"] == before["best_epoch"]
    assert after["recipe_hash"] == before["recipe_hash"]
    assert after["data_hash"] == before["data_hash"]
    for split in ("valid", "test"):
        assert after[split] == pytest.approx(before[split], abs=1e-5)
