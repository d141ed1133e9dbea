"""``gsat explore`` and ``gsat serve``: errors before the server starts."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cli_harness import Trained, refuse


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_wrong_arguments_are_errors(
    command: str, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GSAT_TOKEN", raising=False)
    public = (command, trained.path, "--host", "0.0.0.0", "--port", 0)
    assert "0.0.0.0" in refuse(*public)
    assert "token" in refuse(*public, "--token", "short")
    refuse(command, tmp_path)
    assert "none" in refuse(command, tmp_path / "none")


def test_a_port_in_use_is_an_error(trained: Trained) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in refuse("serve", trained.path, "--port", port)
