"""The installed command in a process of its own: signals, terminals, pipes, a full disk."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from cli_harness import GSAT, SMALL, Trained, environment, finish, refused, start, succeed

pytestmark = pytest.mark.medium  # each waits for an import of torch in a new process


def wait_for_an_epoch(process: subprocess.Popen[str], run: Path) -> None:
    """Until the log of a run that is being trained holds a line."""
    log, until = run / "metrics.jsonl", time.monotonic() + 120
    while not (log.is_file() and log.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no epoch was logged"
        time.sleep(0.02)


def test_an_interrupted_run_is_saved_and_resumed(trained: Trained, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("train", *SMALL, "--epochs", 40, "--out", run)
    wait_for_an_epoch(process, run)
    process.send_signal(signal.SIGINT)
    stopped = finish(process)
    assert stopped.code not in (0, 1)
    assert stopped.out == ""
    pattern = r"gsat: stopped after epoch (\d+) of 40; resume with: (.*)\n"
    output = re.fullmatch(pattern, stopped.err)
    assert output is not None, stopped
    epochs, command = output.groups()
    assert command == f"gsat resume {run}"
    assert (run / "ckpt" / "LAST").read_text() == f"epoch-{epochs}\n"
    assert len((run / "metrics.jsonl").read_text().splitlines()) == int(epochs)
    assert not (run / "result.json").exists()
    succeed(*command.split()[1:])
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 40
    assert (run / "result.json").is_file()


def test_a_terminal_shows_progress_and_takes_ctrl_c(trained: Trained, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    process = start(
        "train", *SMALL, "--epochs", 300, "--out", run,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=environment(TERM="xterm-256color", COLUMNS="160"),
    )  # fmt: skip
    os.close(theirs)
    shown, pressed = b"", False
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            break
        if not part:
            break
        shown += part
        if not pressed and re.search(rb"[1-9]\d*/300", shown):
            os.write(ours, b"\x03")
            pressed = True
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    code = process.wait(timeout=60)
    assert pressed, text
    assert code not in (0, 1), text
    assert "ba2motifs seed 0" in text
    assert "valid accuracy" in text
    assert "stopping after this epoch" in text
    assert f"resume with: gsat resume {run}" in text.splitlines()[-1]
    assert "Traceback" not in text


def test_a_pipe_gets_the_result_and_no_progress(trained: Trained, tmp_path: Path) -> None:
    command = f"{GSAT} train ba2motifs --set graphs=60 --epochs 2 --out {tmp_path / 'run'}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0
    assert done.stdout == trained.outcome.out.splitlines(keepends=True)[0]
    assert done.stderr == ""
    assert (tmp_path / "run" / "result.json").is_file()


def test_a_full_disk_is_one_line_and_the_run_goes_on_later(
    trained: Trained, tmp_path: Path
) -> None:
    run, limit = tmp_path / "run", 30_000  # bytes: the recipe fits, a checkpoint does not

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start("train", *SMALL, "--epochs", 2, "--out", run, preexec_fn=small_disk)
    output = refused(finish(process))
    assert f"can't write to {run}" in output
    assert "File too large" in output
    assert "make room" in output
    assert not list(run.rglob("*.partial"))
    succeed("resume", run)
    assert (run / "result.json").is_file()
