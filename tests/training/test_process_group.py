"""One training shared by two processes, started by torchrun itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from distributed_tasks import NUMBERS, ROWS, first_step
from safetensors.torch import load_file

import gsat
from gsat.bottleneck import information
from gsat.core.errors import RunError
from gsat.methods.base import GradientSync
from gsat.ops import Draws
from gsat.study.records import Records
from gsat.training.loop import make_method
from gsat.training.recipe import load_data
from gsat.training.results import read_records, record_once
from training_harness import NO_TIME, SMALL, differing, epochs_logged, outcome, small_recipe

TESTS = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("distributed_worker.py")


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Two processes of one training."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of two processes; see ``distributed_worker.py``."""
    folder = tmp_path_factory.mktemp("both")
    done = torchrun(WORKER, folder)
    assert "Signal 9 (SIGKILL)" in done.stderr, done.stderr  # the last thing it does
    return folder


def answers(folder: Path, name: str) -> list[Any]:
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]


def kept(folder: Path, name: str) -> list[dict[str, torch.Tensor]]:
    return [load_file(folder / f"{name}-{rank}.safetensors") for rank in (0, 1)]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# -- without a group ------------------------------------------------------------------------------


def test_records_of_several_processes_stand_beside_those_of_one(tmp_path: Path) -> None:
    line = gsat.train(small_recipe(epochs=1)).record()
    assert "processes" not in line
    shared = {**line, "processes": 2}
    file = tmp_path / "runs.jsonl"
    assert [record_once(file, each) for each in (line, shared, shared)] == [True, True, False]
    ((_, runs),) = Records(read_records(file)).items()
    assert list(runs.done.values()) == [line]
    assert list(Records([shared]).items()) == []


def test_a_shared_run_is_not_resumed_by_one_process(tmp_path: Path) -> None:
    out = tmp_path / "run"
    gsat.train(small_recipe(epochs=1), out)
    (out / "result.json").unlink()
    known = json.loads((out / "environment.json").read_text())
    (out / "environment.json").write_text(json.dumps({**known, "processes": 2}))
    with pytest.raises(RunError, match=r"begun by 2 processes, not by 1; .* torchrun .* resume"):
        gsat.resume(out)


# -- two processes --------------------------------------------------------------------------------


@pytest.mark.medium
def test_collectives_of_a_process_group(both: Path) -> None:
    first, second = answers(both, "group")
    assert first["part"] + second["part"] == list(range(7))
    assert (len(first["part"]), len(second["part"])) == (4, 3)
    assert first["small part"] == second["small part"] == [0]
    np.testing.assert_allclose((first["mean"] + second["mean"]) / 2, np.nanmean(NUMBERS))
    assert first["average"] == second["average"] == {"a": 0.5, "b": 5.0}
    assert first["any"] == second["any"] == [True, False]
    assert first["on main"] == second["on main"] == {"rank": 0, "third": 1 / 3, "none": None}


@pytest.mark.medium
def test_an_error_ends_both_and_is_reported_once(both: Path) -> None:
    first, second = answers(both, "group")
    assert first["main fails"] == ["RunError", "the disk is full", 2]
    assert second["main fails"] == ["OtherProcessError", "the disk is full", 2]
    assert second["second fails"] == ["DataError", "no data for 1", 2]
    assert first["second fails"][0] == "OtherProcessError"
    assert "process 1 of this training failed: no data for 1" in first["second fails"][1]
    assert first["both fail"] == ["DataError", "no data for 0", 2]
    assert second["both fail"][0] == "OtherProcessError"
    assert first["none fails"] == second["none fails"] == []
    assert first["same"] == second["same"] == []
    assert first["not the same"][0] == "RunError"
    assert "do not see the same: the data differs" in first["not the same"][1]
    assert second["not the same"][0] == "OtherProcessError"


@pytest.mark.medium
def test_no_process_begins_if_one_can_not(both: Path) -> None:
    first, second = answers(both, "unlike")
    assert first[0] == "OtherProcessError"
    assert "nothing.jsonl" in second[1]
    assert not (both / "unlike").exists()


@pytest.mark.medium
def test_gradient_is_that_of_one_process_where_batch_norm_is_fixed(both: Path) -> None:
    data = load_data(small_recipe())
    alone = first_step(small_recipe(), data, data.train.batch(ROWS), "eval", GradientSync())
    first, second = kept(both, "gradients-eval")
    assert same(first, second)
    wanted = {n: p.grad for n, p in alone.model.named_parameters() if p.grad is not None}
    assert first.keys() == wanted.keys()
    assert max(float(gradient.abs().max()) for gradient in first.values()) > 0.01
    torch.testing.assert_close(first, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.medium
def test_gradient_is_the_weighted_mean_over_the_parts(both: Path) -> None:
    recipe = small_recipe()
    data = load_data(recipe)
    method = make_method(recipe, data)
    model = method.model.train()
    parts = [data.train.batch(rows) for rows in (ROWS[:16], ROWS[16:])]
    edges = sum(part.num_edges for part in parts)
    total, buffers = torch.zeros(()), {}
    for part in parts:
        output = model(part, Draws(5))
        loss = F.binary_cross_entropy_with_logits(output.logits, part.y.float())
        cost = information(output.attention, recipe.settings.r_start)
        total = total + part.num_graphs / len(ROWS) * loss + part.num_edges / edges * cost
        buffers = buffers or {name: b.clone() for name, b in model.named_buffers()}
    total.backward()
    wanted = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    first, second = kept(both, "gradients-train")
    assert same(first, second)
    assert first.keys() == wanted.keys()
    torch.testing.assert_close(first, wanted, rtol=1e-4, atol=1e-6)
    # Running statistics are those of the first part, in both processes.
    first, second = kept(both, "buffers-train")
    assert same(first, second)
    torch.testing.assert_close(first, buffers)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "epochs"), [("gsat", 14), ("gsat-star", 10), ("erm", 5), ("of-one", 0)]
)
def test_both_end_with_the_same_model_and_one_writes_it(name: str, epochs: int, both: Path) -> None:
    first, second = kept(both, name)
    assert same(first, second)
    if not epochs:  # trained in memory
        return
    (result, processes), (other, _) = answers(both, name)
    assert processes == 2
    assert json.loads((both / name / "result.json").read_text()) == result
    assert {**other, **NO_TIME} == {**result, **NO_TIME}
    lines = epochs_logged(both / name)
    assert len(lines) == len({(line["phase"], line["epoch"]) for line in lines}) == epochs
    assert same(gsat.load(both / name).state_dict(), first)


@pytest.mark.medium
def test_two_processes_learn_as_one_does(both: Path, tmp_path: Path) -> None:
    gsat.train(small_recipe(), tmp_path / "run")
    alone, shared = (
        [line["train"]["loss"] for line in epochs_logged(path)]
        for path in (tmp_path / "run", both / "gsat")
    )
    assert shared != alone  # batch norms see half of the batch
    np.testing.assert_allclose(shared, alone, rtol=0.15)


@pytest.mark.medium
def test_ctrl_c_in_one_process_stops_both_and_the_run_is_resumed(both: Path) -> None:
    (first, epochs), (second, epochs_of_second) = answers(both, "interrupted")
    assert first[0] == "Interrupted"
    assert "stopped after epoch 5 of 14; resume with: torchrun … -m gsat resume" in first[1]
    assert second[0] == "OtherProcessError"
    assert first[2] == second[2] == 130
    assert epochs == epochs_of_second == 5
    assert differing(outcome(both / "interrupted"), outcome(both / "gsat")) == []


@pytest.mark.medium
def test_a_killed_run_is_resumed_bit_for_bit(both: Path) -> None:
    out = both / "killed"
    assert json.loads((both / "lost-0.json").read_text()) == [
        "RunError", "another process of this training has ended; what was saved is kept", 2
    ]  # fmt: skip
    assert not (out / "result.json").exists()
    assert (out / "ckpt" / "LAST").read_text() == "epoch-8\n"
    done = torchrun("-m", "gsat", "resume", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    assert "terminate called" not in done.stderr
    assert differing(outcome(out), outcome(both / "gsat")) == []


# A thread of a group that is still there when Python ends may abort the process.
_LEAVING = """
import atexit, os, weakref
import torch
import torch.distributed as dist
from gsat.core.errors import RunError
from gsat.training.process_group import join_processes

with join_processes() as group:
    made = weakref.ref(dist.group.WORLD)
    # In one piece: both processes write at the same time.
    atexit.register(lambda: os.write(1, b"left\\n" if made() is None else b"stayed\\n"))
    group.through(torch.nn.Linear(2, 1))(torch.ones(1, 2)).sum().backward()
    raise group.common_error(RunError("the disk is full"))
"""


@pytest.mark.medium
def test_no_group_is_left_when_python_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text(_LEAVING)
    done = torchrun(tmp_path / "leaving.py")
    assert done.returncode != 0
    assert "terminate called" not in done.stderr
    # torchrun may end the second process before it comes to this.
    assert "left" in done.stdout, done.stderr


@pytest.mark.slow
def test_command_line(tmp_path: Path) -> None:
    out, record = tmp_path / "run", tmp_path / "runs.jsonl"
    settings = [f"--set={key}={value}" for key, value in SMALL.items() if key != "epochs"]
    command = ("-m", "gsat", "train", "ba2motifs", *settings, "--epochs=2", f"--out={out}")
    done = torchrun(*command, f"--record={record}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    (line,) = read_records(record)
    assert line["processes"] == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run", "runs.jsonl"]


@pytest.mark.slow
def test_refusals_are_one_line_of_one_process(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = torchrun("-m", "gsat", "train", "ba2motifs", "--method=dir", f"--out={out}")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("gsat: ")]
    assert "DIR is trained by one process, not by 2" in line
    assert "exitcode  : 2" in done.stderr
    assert not out.exists()
