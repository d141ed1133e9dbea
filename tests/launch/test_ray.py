"""Jobs on Ray, whatever befalls the workers; and runs there, which are as in one process.

A cluster of two nodes with one CPU each is begun on this machine, once; it needs no network. The
first tests come while this process is not connected to it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gsat
from gsat.core.errors import MissingExtraError, RunError
from gsat.launch import pool, ray
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from gsat.training.many_runs import train_each
from gsat.training.recipe import from_tables, make_recipe
from gsat.training.results import read_records
from training_harness import (
    differing,
    epochs_logged,
    is_marked,
    mark,
    one_line,
    outcome,
    small_recipe,
)
from waiting import wait_until

pytestmark = pytest.mark.medium

NO_RAY = "Ray is not installed: pip install 'torch-gsat[ray]'"
# Workers of a Ray have the environment of those who started it.
JOBS_PATH = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
RayPool = partial(WorkerPool, backend="ray")
train_on_ray = partial(train_each, backend="ray")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the cluster is."""
    pytest.importorskip("ray", reason=NO_RAY)
    from ray.cluster_utils import Cluster

    short = tempfile.mkdtemp(dir="/tmp")
    (Path(short) / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", short)
        patch.setenv("RAY_worker_niceness", "0")  # other tests run beside
        patch.setenv("PYTHONPATH", JOBS_PATH)
        nodes = Cluster(True, head_node_args={"include_dashboard": False})
        nodes.add_node()
        yield nodes.address
        nodes.shutdown()
    shutil.rmtree(short, ignore_errors=True)


@pytest.fixture(scope="module")
def connected(address: str) -> Iterator[Any]:
    """Ray, as a process has it that works with Ray itself."""
    import ray

    ray.init(address, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def job(function: str, payload: Any = None) -> Job:
    return Job(f"pool_jobs.{function}", payload)


def once(holds: Callable[[], object], act: Callable[[], object]) -> threading.Thread:
    """Do something as soon as something holds."""

    def watch() -> None:
        wait_until(holds)
        act()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def has_ended(path: Path) -> bool:
    """Whether the worker that wrote its process's number to a file is gone."""
    try:
        os.kill(int(path.read_text().split()[0]), 0)
    except ProcessLookupError:
        return True
    return False


# -- without a connection -------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["by the caller", "by RAY_ADDRESS"])
def test_where_no_cluster_is_it_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    pytest.importorskip("ray", reason=NO_RAY)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken, but nobody listens
        where = f"127.0.0.1:{free.getsockname()[1]}"
        if given == "by RAY_ADDRESS":
            monkeypatch.setenv("RAY_ADDRESS", where)
        address = where if given == "by the caller" else None
        with pytest.raises(RunError, match=f"can't connect to Ray at '{where}'") as caught:
            train_on_ray({"run": small_recipe()}, tmp_path, address=address)
    one_line(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'torch-gsat\[ray\]'") as caught:
        train_on_ray({"run": small_recipe()}, tmp_path)
    one_line(caught.value)


def test_a_ray_of_our_own_ends_with_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason=NO_RAY)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    monkeypatch.setenv("PYTHONPATH", JOBS_PATH)
    sockets: list[Path] = []

    def on_done(name: str, outcome: Outcome) -> None:
        sockets.extend(Path(node["ObjectStoreSocketName"]) for node in ray.nodes())
        assert ray.cluster_resources()["CPU"] == 1
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"

    with RayPool(1) as workers:
        result = workers.run({"a": job("double", [0.1, None])}, on_done=on_done)
    assert result == PoolResult({"a": [0.1, None, 0.1, None]})
    assert not ray.is_initialized()
    assert [str(path).startswith("/tmp/gsat-") for path in sockets] == [True]
    assert not Path(*sockets[0].parts[:3]).exists()


# -- runs -----------------------------------------------------------------------------------------


def test_a_cluster_trains_as_one_process_does_and_a_run_that_fails_stops_no_other(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the folder is not given in full: a worker has another working directory."""
    import ray

    monkeypatch.chdir(tmp_path)
    folder, file = tmp_path / "runs", tmp_path / "results" / "runs.jsonl"
    folder.mkdir()
    (folder / "broken").write_text("in the way")
    runs = {"broken": small_recipe(2), "zero": small_recipe(0), "one": small_recipe(1)}
    came: dict[str, Any] = {}
    ended = train_on_ray(
        runs, "runs", address=address, record=file, done=lambda name, r: came.update({name: r})
    )
    assert not ray.is_initialized()
    socket.create_connection(address.rsplit(":", 1)).close()  # the cluster goes on without us
    assert ended.unfinished == []
    assert list(ended.failures) == ["broken"]
    assert "is not an empty folder" in one_line(RunError(ended.failures["broken"]))
    assert came == {**ended.results, **ended.failures}
    recorded = {line["seed"]: line for line in read_records(file)}
    assert sorted(recorded) == [0, 1]
    for name in ("zero", "one"):
        alone = gsat.train(runs[name], tmp_path / f"alone-{name}")
        assert alone.path
        assert differing(outcome(folder / name), outcome(alone.path)) == []
        same = {"seconds": ended.results[name]["seconds"]}
        assert ended.results[name] == json.loads(json.dumps({**alone.result, **same}))
        assert ended.results[name] == json.loads((folder / name / "result.json").read_text())
        line = recorded[runs[name].seed]
        assert {key: line[key] for key in ended.results[name]} == ended.results[name]
        assert from_tables(line["recipe"]) == runs[name]
        assert line["threads"] == 1


@pytest.mark.usefixtures("connected")
def test_workers_of_a_cluster_share_backbones(tmp_path: Path) -> None:
    small = {"hidden": 8, "layers": 1, "epochs": 2, "graphs": 60, "explain_epochs": 1}
    for name, rate in (("one", 0.1), ("two", 0.01)):
        settings = {**small, "explain_lr": rate}
        run = {name: make_recipe("ba2motifs", method="pgexplainer", settings=settings)}
        ended = train_on_ray(run, tmp_path, pretrained_cache=tmp_path / "pretrained_cache")
        assert ended.failures == {}
        mark(tmp_path / "pretrained_cache")
    assert not is_marked(tmp_path / "one")
    assert is_marked(tmp_path / "two")


def logged(path: Path) -> int:
    return len(epochs_logged(path)) if (path / "metrics.jsonl").exists() else 0


def saved(path: Path) -> int:
    return int((path / "ckpt" / "LAST").read_text().strip().removeprefix("epoch-"))


def worker_of(path: Path) -> int:
    """The process that trains in a run directory: it holds its lock."""
    lock = (path / ".lock").resolve()
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            try:
                if any(handle.readlink() == lock for handle in (process / "fd").iterdir()):
                    return int(process.name)
            except OSError:
                continue  # it has ended, or is not ours
    raise AssertionError(f"nobody is training in {path}")


def test_a_deadline_leaves_what_is_not_done_and_a_killed_worker_is_replaced(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time comes in the middle of a long run; in the next call its worker is killed."""
    folder, file = tmp_path / "runs", tmp_path / "runs.jsonl"
    long = folder / "long"
    runs = {"short": small_recipe(0, epochs=1), "long": small_recipe(1, epochs=150)}
    clock = SimpleNamespace(monotonic=lambda: 2.0 if logged(long) >= 3 else 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "time", clock)
        ended = train_on_ray(runs, folder, record=file, deadline=1.0)
    assert ended.unfinished == ["long"]
    assert list(ended.results) == ["short"]
    assert ended.failures == {}
    before = saved(long)
    assert 3 <= before == logged(long) < 150
    assert not (long / "result.json").exists()

    killed: list[int] = []

    def kill() -> None:
        killed.append(worker_of(long))
        os.kill(killed[0], signal.SIGKILL)

    thread = once(lambda: logged(long) > before + 1, kill)
    ended = train_on_ray(runs, folder, record=file)
    thread.join()
    assert len(killed) == 1
    assert connected.is_initialized()
    assert ended.unfinished == []
    assert ended.failures == {}
    assert set(ended.results) == {"short", "long"}
    # The last checkpoint and the one before it are kept: it resumed from where the time came.
    assert {folder.name for folder in (long / "ckpt").glob("epoch-*")} == {
        f"epoch-{before}", "epoch-150"
    }  # fmt: skip
    gsat.train(runs["long"], tmp_path / "alone")
    assert differing(outcome(long), outcome(tmp_path / "alone")) == []

    again = train_on_ray(runs, folder, record=file)
    assert again.results == ended.results
    assert sorted(line["seed"] for line in read_records(file)) == [0, 1]
    for path in folder.iterdir():
        assert json.loads((path / "result.json").read_text()) == ended.results[path.name]


# -- jobs -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("connected")
def test_ctrl_c_lets_the_running_job_save_and_begins_nothing_new(tmp_path: Path) -> None:
    path, waits = tmp_path / "runs", tmp_path / "waits"
    thread = once(path.exists, lambda: os.kill(os.getpid(), signal.SIGINT))
    jobs = {"runs": job("work", str(path)), "waits": job("work", str(waits))}
    with RayPool(1) as workers, pytest.raises(KeyboardInterrupt):
        workers.run(jobs)
    thread.join()
    assert path.read_text().endswith(" saved")
    assert not waits.exists()


def test_a_job_that_does_not_stop_in_time_is_ended(
    connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The asking is lost on the way."""
    path, cancel = tmp_path / "deaf", connected.cancel

    def lossy(task: Any, *, force: bool = False) -> None:
        if force:
            cancel(task, force=True)

    monkeypatch.setattr(connected, "cancel", lossy)
    monkeypatch.setattr(ray.RayBackend, "grace", 0.2)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() if path.exists() else 0.0)
    monkeypatch.setattr(pool, "time", clock)
    with RayPool() as workers:
        result = workers.run({"deaf": job("work", str(path))}, deadline=1.0)
    assert result == PoolResult(unfinished=["deaf"])
    assert not path.read_text().endswith(" saved")
    wait_until(lambda: has_ended(path))


@pytest.mark.usefixtures("connected")
def test_no_task_goes_on_without_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "long"

    def on_done(name: str, outcome: Outcome) -> None:
        wait_until(lambda: path.exists() and path.read_text())
        raise ZeroDivisionError

    with RayPool() as workers, pytest.raises(ZeroDivisionError):
        workers.run({"long": job("work", str(path)), "short": job("double", 1)}, on_done=on_done)
    wait_until(lambda: has_ended(path))


@pytest.mark.usefixtures("connected")
def test_when_the_time_has_come_before_nothing_is_begun(tmp_path: Path) -> None:
    runs = {"a": small_recipe(0), "b": small_recipe(1)}
    ended = train_on_ray(runs, tmp_path, deadline=time.monotonic())
    assert ended == PoolResult({}, {}, ["a", "b"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("connected")
def test_a_job_whose_worker_always_dies_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "_RETRIES", 0)
    came: list[Any] = []
    with RayPool() as workers:
        result = workers.run({"dies": job("die")}, on_done=lambda *ended: came.append(ended))
    assert list(result.failures) == ["dies"]
    assert "worker" in one_line(RunError(result.failures["dies"]))
    assert came == [("dies", Outcome("failed", result.failures["dies"]))]


@pytest.mark.usefixtures("connected")
def test_a_job_that_fails_says_why() -> None:
    with RayPool() as workers:
        result = workers.run({kind: job("fail", kind) for kind in ("user", "bug", "busy")})
    assert result.failures == {"user": "no such file", "bug": "ZeroDivisionError: a bug"}
    assert (result.unfinished, result.busy) == (["busy"], ["busy"])
