"""``gsat explore`` and ``gsat serve``: what they refuse before they listen."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cli_harness import Trained, refuse


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_other_addresses_need_a_token(
    command: str, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GSAT_TOKEN", raising=False)
    refused = refuse(command, trained.path, "--host", "0.0.0.0", "--port", 0)
    assert "a token is needed" in refused
    assert "at least 16" in refuse(command, trained.path, "--host", "0.0.0.0", "--token", "short")


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_there_has_to_be_a_run(command: str, tmp_path: Path) -> None:
    assert "no run that can be read" in refuse(command, tmp_path)
    assert "it is no folder" in refuse(command, tmp_path / "none")


def test_a_taken_port_is_named(trained: Trained) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"can't listen on 127.0.0.1, port {port}" in refuse(
            "serve", trained.path, "--port", port
        )
