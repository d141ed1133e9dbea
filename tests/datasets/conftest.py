"""Fixtures for tests of data sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback import Loopback, serving

from gsat.datasets.fetch import transfer


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def raw(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of raw files in an empty cache; downloads are allowed and don't wait."""
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.delenv("GSAT_OFFLINE")
    monkeypatch.setattr(transfer, "PAUSES", (0.0, 0.0, 0.0))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return cache / "raw"


@pytest.fixture
def server(raw: Path) -> Iterator[Loopback]:
    """A server for one test."""
    with serving() as loopback:
        yield loopback


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 16 columns with random weights, whose pieces are single letters."""
    transformers = pytest.importorskip("transformers")
    import torch

    folder = tmp_path_factory.mktemp("bert")
    letters = "abcdefghijklmnopqrstuvwxyz.,'-0123456789"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), "utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=300,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    return folder
