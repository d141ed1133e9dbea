"""Invalid input: one line on standard error, exit code 2, and no files left behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_harness import SMALL, TINY, Trained, gsat, refuse

import gsat as package

# -- train ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([""], "''"),
        (["spmotif-7"], "'spmotif-7'"),
        (["ba2motifs", "--set", "epohcs=3"], "'epochs'"),
        (["ba2motifs", "--set", "lr=-1"], "training.lr"),
        (["ba2motifs", "--set", "graphs=few"], "'few'"),
        (["ba2motifs", "--set", "source=elsewhere"], "'elsewhere'"),
        (["ba2motifs", "--seed", "99999999999"], "99999999999"),
        (["ba2motifs", "--device", "nonsense"], "'nonsense'"),
    ],
)
def test_train_refuses(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in refuse("train", *arguments, "--quiet")
    assert list(tmp_path.iterdir()) == []


def test_train_refuses_a_file_name_that_a_recipe_can_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "a\x1b[2Jb.csv"
    molecules = [f"{'C' * (n + 1)}O,{n % 2}" for n in range(20)]
    table.write_text("\n".join(["smiles,active", *molecules]))
    out = tmp_path / "run"
    outcome = gsat("train", table, "--out", out, "--epochs", "1", "--quiet")
    assert outcome.code == 2
    assert "ParseError" not in outcome.err
    assert "\x1b" not in outcome.err
    assert not out.exists()


def test_an_unknown_engine(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", "bogus")
    for command in (["train", *TINY, "--out", tmp_path / "run"], ["evaluate", trained.path]):
        assert "'bogus'" in refuse(*command)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[training]\nepochss = 3\n", "training.epochss"),
        ("[data]\ngrahps = 5\n", "'grahps'"),
        ("[data]\nname = 'houses'\n", "'houses'"),
        (b"\xff\xfe\x00", "mine.toml"),
    ],
)
def test_a_bad_recipe_file(content: str | bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert problem in refuse("train", *SMALL, "--recipe", file, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("dataset", "file"),
    [
        (["mutag"], "mutagenicity/Mutagenicity.zip"),
        (["ba2motifs", "--set", "source=published"], "ba_2motifs/BA-2motif.pkl"),
    ],
)
def test_a_missing_raw_file_is_named_with_its_place(
    dataset: list[str], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    problem = refuse("train", *dataset, "--out", tmp_path / "run")
    assert str(tmp_path / "cache" / "raw" / file) in problem
    assert "GSAT_DATA" in problem
    assert not (tmp_path / "run").exists()


def test_a_run_is_never_written_over_other_files(trained: Trained, tmp_path: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")}
    assert str(trained.path) in refuse("train", *SMALL, "--out", trained.path)
    assert {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")} == before
    (tmp_path / "notes.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "notes.txt", tmp_path / "notes.txt" / "run"):
        assert str(out) in refuse("train", *TINY, "--out", out)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_records_that_can_not_be_used(tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    record.write_text("\nnonsense\n")
    assert f"{record}, line 2" in refuse(
        "train", *TINY, "--out", tmp_path / "a", "--record", record
    )
    assert not (tmp_path / "a").exists()
    blocked = record / "runs.jsonl"
    assert str(blocked) in refuse("train", *TINY, "--out", tmp_path / "b", "--record", blocked)


# -- missing and damaged runs ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["resume", "evaluate", "predict", "explain"])
def test_a_folder_that_is_not_a_run(command: str, tmp_path: Path) -> None:
    assert str(tmp_path) in refuse(command, tmp_path)
    assert "nowhere" in refuse(command, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recipe.toml", b"not [ toml"),
        ("best/model.json", b"[]"),
        ("best/*.safetensors", None),
    ],
)
def test_a_run_with_a_damaged_file(file: str, content: bytes | None, copied: Path) -> None:
    (path,) = copied.glob(file)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    refuse("evaluate", copied)


# -- evaluate, predict, explain -------------------------------------------------------------------


@pytest.mark.parametrize("command", [["evaluate"], ["predict"], ["explain", "--graph", "0"]])
def test_wrong_data(command: list[str], trained: Trained, tmp_path: Path) -> None:
    name, *options = command
    assert "'tset'" in refuse(name, trained.path, *options, "--split", "tset")
    assert "'nosuch'" in refuse(name, trained.path, "nosuch", *options)
    assert str(tmp_path) in refuse(name, trained.path, tmp_path, *options)
    store = package.load_dataset("spmotif-0.5", train_per_class=6).test.select([0, 1])
    problem = refuse(name, trained.path, store.save(tmp_path / "other"), *options)
    assert "10 node features" in problem
    (tmp_path / "graphs.safetensors").write_bytes(b"nonsense")
    assert "damaged" in refuse(name, trained.path, tmp_path, *options)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--graph", "6"], "6"),
        (["--graph", "-1"], "-1"),
        (["--graph", "0", "--top", "x"], "'x'"),
        (["--graph", "0", "--top", "120%"], "'120%'"),
        (["--graph", "0", "--top", "6", "--above", "0.5"], "--above"),
        (["--graph", "0", "--json", "--out", "g.svg"], "--json"),
        (["--graph", "0", "--out", "g.txt"], ".svg"),
        (["--graph", "0", "--out", "g.npz"], ".svg"),
        ([], "--graph"),
        (["--out", "g.svg"], "--graph"),
        (["--top", "3", "--out", "g.npz"], "--graph"),
        (["--above", "0", "--out", "g.npz"], "--graph"),
    ],
)
def test_explain_refuses(
    arguments: list[str],
    problem: str,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in refuse("explain", trained.path, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["explain", "--graph", "0", "g.png"], ["explain", "s.npz"], ["predict", "p.csv"]]
)
def test_output_that_can_not_be_written(
    command: list[str], trained: Trained, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    name, *options, file = command
    outcome = gsat(name, trained.path, *options, "--out", tmp_path / "file" / file)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert str(tmp_path / "file" / file) in outcome.err


# -- untrusted text --------------------------------------------------------------------------------


def test_long_and_odd_values_are_cut_and_escaped(tmp_path: Path) -> None:
    for words in (
        ("train", "x" * 5000),
        ("train", "ba2motifs", "--set", f"lr={'y' * 5000}"),
        ("train", "ba2motifs", "--set", "lr=" + "[" * 5000),
        ("train", "ba2motifs", "--set", "\x1b]0;title\x07=1"),
        ("train", "./" + "x" * 5000 + ".jsonl"),
        ("resume", tmp_path / ("z" * 200) / "\x1b[2J"),
    ):
        problem = refuse(*words)
        assert len(problem) <= 300
        assert problem.isprintable()


def test_a_run_directory_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "\udcff\x1b[2J\n"  # a byte that is not UTF-8, an escape sequence, a new line
    done = gsat("train", *SMALL, "--epochs", 1, "--out", odd, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert r"\udcff\x1b[2J\n" in done.out
    assert gsat("runs", tmp_path).code == 0
    assert r"\x1b[2J\n" in refuse("train", *SMALL, "--out", odd)
    shutil.rmtree(odd)
