"""A process that trains in forked children and can kill them in the middle of any file operation.

A request is a JSON line: ``tables`` (the recipe), ``out``, ``checkpoint_seconds`` (0), and one of
    kill: [event, name, count]: SIGKILL just before the count-th such operation on such a file,
        with the file half-written if it was about to be written;
    kill_after: SIGKILL just before the n-th operation of any kind in ``out``;
    interrupt: [epoch, times]: Ctrl-C, this many times, in a step of that epoch.
The answer is a JSON line: ``killed`` (the signal, or null), ``error`` (kind and message, or null),
``operations`` (how many there were), ``handler`` (whether Ctrl-C is handled as before).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import gsat
import gsat.methods.gsat
import gsat.training.train
from gsat.training.recipe import from_tables

WRITES = os.O_WRONLY | os.O_RDWR


def main() -> None:
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # a killed process loses nothing the kernel has
    warmed = False
    for line in sys.stdin:
        request = json.loads(line)
        if not warmed:  # compiled kernels are loaded once, not in every child
            tables = request["tables"]
            gsat.train(from_tables({**tables, "training": {**tables["training"], "epochs": 1}}))
            warmed = True
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                answer = run_request(request)
            except BaseException as error:
                answer = {"error": [type(error).__name__, str(error)]}
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = json.loads(pipe.read() or "{}")
        _, status = os.waitpid(child, 0)
        answer["killed"] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def run_request(request: dict[str, Any]) -> dict[str, Any]:
    operations = watch(Path(request["out"]), request.get("kill"), request.get("kill_after"))
    if "interrupt" in request:
        epoch, times = request["interrupt"]
        at_epoch(epoch, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(times)])
    handler = signal.getsignal(signal.SIGINT)
    answer: dict[str, Any] = {"error": None}
    try:
        seconds = request.get("checkpoint_seconds", 0)
        gsat.train(from_tables(request["tables"]), request["out"], checkpoint_seconds=seconds)
    except BaseException as error:
        answer["error"] = [type(error).__name__, str(error)]
    answer["operations"] = operations[0]
    answer["handler"] = signal.getsignal(signal.SIGINT) is handler
    return answer


def watch(out: Path, kill: list[Any] | None, kill_after: int | None) -> list[int]:
    """Count the operations that change something in ``out``, and kill before the chosen one."""
    count, matching, at_work = [0], [0], [True]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if not at_work[0] or event not in (
            "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"
        ):  # fmt: skip
            return
        if event == "open" and not args[2] & WRITES:
            return
        # What rmtree removes is named by a folder's handle; rmtree itself is enough.
        target = Path(os.fsdecode(args[1] if event == "os.rename" else args[0]))
        if out not in (target, *target.parents):
            return
        count[0] += 1
        if kill and kill[0] == event and kill[1] in str(target):
            matching[0] += 1
        if count[0] == kill_after or (kill and matching[0] == kill[2]):
            at_work[0] = False
            if event == "open":
                with target.open("ab") as handle:
                    handle.write(b'{"half')
            if event == "shutil.rmtree":
                next(target.iterdir()).unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    return count


def at_epoch(epoch: int, act: Callable[[], object]) -> None:
    """Do something in the first step of an epoch."""
    method = gsat.methods.gsat.GSATMethod
    step = method.step
    done = False

    def acting(self: Any, batch: Any, context: Any) -> Any:
        nonlocal done
        if context.epoch == epoch and not done:
            done = True
            act()
        return step(self, batch, context)

    method.step = acting  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
