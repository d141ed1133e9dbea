"""Jobs and training runs on a Ray cluster.

The cluster has two nodes with one CPU each on this machine and needs no network.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pool_jobs import has_ended, has_text, job, press_ctrl_c_when

import gsat
from gsat.core.errors import MissingExtraError, RunError
from gsat.launch import pool, ray
from gsat.launch.jobs import Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from gsat.training.many_runs import train_each
from gsat.training.recipe import from_tables
from gsat.training.results import read_records
from training_harness import NO_TIME, differing, one_line, outcome, small_recipe
from waiting import wait_until

pytestmark = pytest.mark.medium

NO_RAY = "Ray is not installed: pip install 'torch-gsat[ray]'"
# Ray's workers inherit the environment of the process that started Ray.
HERE = Path(__file__).parent
JOBS_PATH = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
train_on_ray = partial(train_each, backend="ray")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Address of the cluster."""
    pytest.importorskip("ray", reason=NO_RAY)
    from ray.cluster_utils import Cluster

    short = tempfile.mkdtemp(dir="/tmp")
    (Path(short) / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", short)
        patch.setenv("RAY_worker_niceness", "0")  # else other tests slow the workers down
        patch.setenv("PYTHONPATH", JOBS_PATH)
        nodes = Cluster(True, head_node_args={"include_dashboard": False})
        nodes.add_node()
        yield nodes.address
        nodes.shutdown()
    shutil.rmtree(short, ignore_errors=True)


# -- connections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["argument", "RAY_ADDRESS"])
def test_an_address_without_a_cluster_fails_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    pytest.importorskip("ray", reason=NO_RAY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # reserved, but without a server
        where = f"127.0.0.1:{free.getsockname()[1]}"
        if given == "RAY_ADDRESS":
            monkeypatch.setenv("RAY_ADDRESS", where)
        address = where if given == "argument" else None
        with pytest.raises(RunError, match=where) as caught:
            train_on_ray({"run": small_recipe()}, tmp_path, address=address)
    one_line(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_ray_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"torch-gsat\[ray\]") as caught:
        train_on_ray({"run": small_recipe()}, tmp_path)
    one_line(caught.value)


def test_a_local_ray_ends_with_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason=NO_RAY)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    monkeypatch.setenv("PYTHONPATH", JOBS_PATH)
    sockets: list[Path] = []

    def on_done(name: str, outcome: Outcome) -> None:
        sockets.extend(Path(node["ObjectStoreSocketName"]) for node in ray.nodes())
        assert ray.cluster_resources()["CPU"] == 1
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"

    with WorkerPool(1, "ray") as workers:
        result = workers.run({"a": job("double", [0.1, None])}, on_done=on_done)
    assert result == PoolResult({"a": [0.1, None, 0.1, None]})
    assert not ray.is_initialized()
    assert [str(path).startswith("/tmp/gsat-") for path in sockets] == [True]
    assert not Path(*sockets[0].parts[:3]).exists()


def test_a_connection_of_the_caller_stays_open(address: str) -> None:
    import ray

    ray.init(address, log_to_driver=False, logging_level="ERROR")
    try:
        with WorkerPool(backend="ray") as workers:
            assert workers.run({"a": job("double", 2)}) == PoolResult({"a": 4})
        assert ray.is_initialized()
    finally:
        ray.shutdown()


# -- training -------------------------------------------------------------------------------------


def test_training_on_a_cluster_equals_training_here_and_failures_are_independent(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.chdir(tmp_path)  # workers have another working directory
    folder, file = tmp_path / "runs", tmp_path / "results" / "runs.jsonl"
    folder.mkdir()
    (folder / "broken").write_text("in the way")
    runs = {"broken": small_recipe(2), "zero": small_recipe(0), "one": small_recipe(1)}
    reported: dict[str, Any] = {}
    ended = train_on_ray(
        runs, "runs", address=address, record=file, done=lambda name, r: reported.update({name: r})
    )
    assert not ray.is_initialized()
    socket.create_connection(address.rsplit(":", 1)).close()  # the cluster still runs
    assert ended.unfinished == []
    assert list(ended.failures) == ["broken"]
    one_line(RunError(ended.failures["broken"]))
    assert reported == {**ended.results, **ended.failures}
    recorded = {line["seed"]: line for line in read_records(file)}
    assert sorted(recorded) == [0, 1]
    for name in ("zero", "one"):
        alone = gsat.train(runs[name], tmp_path / f"alone-{name}")
        assert alone.path
        assert differing(outcome(folder / name), outcome(alone.path)) == []
        same = {key: ended.results[name][key] for key in NO_TIME}
        assert ended.results[name] == json.loads(json.dumps({**alone.result, **same}))
        assert ended.results[name] == json.loads((folder / name / "result.json").read_text())
        line = recorded[runs[name].seed]
        assert {key: line[key] for key in ended.results[name]} == ended.results[name]
        assert from_tables(line["recipe"]) == runs[name]
        assert line["threads"] == 1


# -- stopping and failing -------------------------------------------------------------------------


def test_ctrl_c_lets_the_running_job_save_and_starts_no_other(address: str, tmp_path: Path) -> None:
    path, waiting = tmp_path / "runs", tmp_path / "waits"
    thread = press_ctrl_c_when(lambda: has_text(path))
    jobs = {"runs": job("work", str(path)), "waits": job("work", str(waiting))}
    with WorkerPool(1, "ray", address) as workers, pytest.raises(KeyboardInterrupt):
        workers.run(jobs)
    thread.join()
    assert path.read_text().endswith(" saved")
    assert not waiting.exists()


@pytest.mark.parametrize("stops", [True, False])
def test_a_deadline_interrupts_jobs_and_kills_those_that_do_not_stop(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    path = tmp_path / "job"
    # The deadline passes when the job is running; the grace period, as soon as it has begun.
    times = itertools.count(2)
    clock = SimpleNamespace(monotonic=lambda: float(next(times)) if has_text(path) else 0.0)
    monkeypatch.setattr(pool, "time", clock)
    monkeypatch.setattr(pool, "_LONGEST_WAIT", 0.05)
    monkeypatch.setattr(ray.RayBackend, "grace", math.inf if stops else 0.5)
    with WorkerPool(backend="ray", address=address) as workers:
        import ray as connected

        cancel = connected.cancel
        if not stops:  # the request to stop is lost
            monkeypatch.setattr(
                connected, "cancel", lambda task, force=False: force and cancel(task, force=True)
            )
        result = workers.run({"job": job("work", str(path))}, deadline=1.0)
        wait_until(lambda: stops or has_ended(path))
    assert result == PoolResult(unfinished=["job"])
    assert path.read_text().endswith(" saved") == stops


def test_outcomes_of_failing_jobs_and_dying_workers(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "_RETRIES", 1)
    (tmp_path / "times").write_text("once\n")
    jobs = {kind: job("fail", kind) for kind in ("user", "bug", "busy")}
    jobs |= {"dies once": job("die", str(tmp_path / "times")), "dies": job("die")}
    with WorkerPool(backend="ray", address=address) as workers:
        result = workers.run(jobs)
    assert result.results == {"dies once": "alive"}
    assert (result.unfinished, result.busy) == (["busy"], ["busy"])
    one_line(RunError(result.failures.pop("dies")))
    assert result.failures == {"user": "no such file", "bug": "ZeroDivisionError: a bug"}
