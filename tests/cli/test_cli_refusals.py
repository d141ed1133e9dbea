"""Bad input: one clear line on standard error, exit code 2, nothing left behind."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from cli_harness import SMALL, TINY, Trained, gsat, refuse

import gsat as package

# -- train ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["nosuch"], r"no data set 'nosuch'.*ba2motifs"),
        (["ba2motif"], r"did you mean 'ba2motifs'\?"),
        ([""], r"no data set ''"),
        (["spmotif-7"], r"no data set 'spmotif-7'"),
        (["ba2motifs", "--method", "nosuch"], r"no method 'nosuch'.*gsat"),
        (["ba2motifs", "--backbone", "nosuch"], r"backbone.*'nosuch'"),
        (["ba2motifs", "--set", "epohcs=3"], r"no setting 'epohcs'.*'epochs'"),
        (["ba2motifs", "--set", "epochs=2.5"], r"training\.epochs.*integer.*2\.5"),
        (["ba2motifs", "--set", "epochs=many"], r"training\.epochs.*'many'"),
        (["ba2motifs", "--set", "lr=-1"], r"training\.lr.*greater than 0"),
        (["ba2motifs", "--set", "lr"], r"key=value"),
        (["ba2motifs", "--set", "=3"], r"key=value"),
        (["ba2motifs", "--set", "graphs=few"], r"graphs.*'few'"),
        (["ba2motifs", "--set", "graphs=0"], r"graphs.*0"),
        (["ba2motifs", "--set", "source=elsewhere"], r"source.*'generated' or 'published'"),
        (["ba2motifs", "--seed", "99999999999"], r"seed.*99999999999"),
        (["ba2motifs", "--recipe", "nowhere.toml"], r"nowhere\.toml.*No such file"),
        (["ba2motifs", "--device", "nonsense"], r"device 'nonsense'"),
    ],
)
def test_train_refuses(
    arguments: list[str], output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(output, refuse("train", *arguments, "--quiet"))
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert "device 'cuda'" in refuse("train", *TINY, "--device", "cuda", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_engine(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", "bogus")
    for command in (["train", *TINY, "--out", tmp_path / "run"], ["evaluate", trained.path]):
        output = refuse(*command)
        assert "GSAT_OPS" in output
        assert "'bogus'" in output


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("[training]\nepochss = 3\n", r"no setting 'training\.epochss'"),
        ("epochs = 3\n", r"no setting 'epochs'"),
        ("[trainin]\nepochs = 3\n", r"no setting 'trainin'"),
        ("[method.gsat]\nr_last = 0.5\n", r"no setting '.*r_last'"),
        ("[data]\ngrahps = 5\n", r"'grahps'"),
        ('[training]\nepochs = "3"\n', r"'training\.epochs'.*integer.*'3'"),
        ("[backbone]\ndropout = 1.5\n", r"'backbone\.dropout'.*less than 1"),
        ("training = 3\n", r"'training'.*table"),
        ("[data]\nname = 'houses'\n", r"'houses'.*'ba2motifs'"),
        ("[training\nepochs = 3\n", r"mine\.toml is not a TOML file.*line 1"),
        (b"\xff\xfe\x00", r"mine\.toml is not a TOML file"),
    ],
)
def test_a_bad_recipe_file(content: str | bytes, output: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refuse("train", *SMALL, "--recipe", file, "--out", tmp_path / "run")
    assert re.search(output, line)
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
    output = refuse("train", *dataset, "--out", tmp_path / "run")
    assert Path(file).name in output
    assert str(tmp_path / "cache" / "raw" / file) in output
    assert "GSAT_DATA" in output
    assert not (tmp_path / "run").exists()


def test_out_that_holds_another_run(trained: Trained) -> None:
    before = {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")}
    output = refuse("train", *SMALL, "--out", trained.path)
    assert "already holds a run (it is finished); choose another folder" in output
    assert {file: file.stat().st_mtime_ns for file in trained.path.rglob("*")} == before


def test_out_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "not an empty folder" in refuse("train", *TINY, "--out", tmp_path)
    assert "not an empty folder" in refuse("train", *TINY, "--out", tmp_path / "notes.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_out_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = refuse("train", *TINY, "--out", tmp_path / "file" / "run")
    assert f"can't write to {tmp_path / 'file' / 'run'}" in output
    assert "Not a directory" in output


def test_a_record_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = tmp_path / "file" / "runs.jsonl"
    output = refuse("train", *TINY, "--out", tmp_path / "run", "--record", record)
    assert str(record) in output
    assert (tmp_path / "run" / "result.json").is_file()  # the training is not lost


def test_a_broken_record_is_known_before_training(tmp_path: Path) -> None:
    record = tmp_path / "runs.jsonl"
    record.write_text("\nnonsense\n")
    output = refuse("train", *TINY, "--out", tmp_path / "run", "--record", record)
    assert f"{record}, line 2" in output
    assert not (tmp_path / "run").exists()


# -- runs that are none, or broken ----------------------------------------------------------------


@pytest.mark.parametrize("command", ["resume", "evaluate", "predict", "explain"])
def test_a_folder_that_is_no_run(command: str, tmp_path: Path) -> None:
    assert "is not a run" in refuse(command, tmp_path)
    assert "is not a run" in refuse(command, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("recipe.toml", b"not [ toml"),
        ("best/model.json", b"{"),
        ("best/model.json", b"[]"),
        ("best/model.json", None),
    ],
)
def test_a_run_with_a_damaged_file(file: str, content: bytes | None, copied: Path) -> None:
    if content is None:
        (copied / file).unlink()
    else:
        (copied / file).write_bytes(content)
    refuse("evaluate", copied)


def test_damaged_weights(copied: Path) -> None:
    weights = next((copied / "best").glob("*.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(bytes(content))
    assert "damaged" in refuse("predict", copied)
    weights.unlink()
    refuse("predict", copied)


def test_a_run_without_its_environment(copied: Path) -> None:
    (copied / "environment.json").unlink()
    assert "environment.json" in refuse("resume", copied)


# -- evaluate, predict, explain -------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "predict", "explain"])
def test_an_unknown_split_or_data_set(command: str, trained: Trained, tmp_path: Path) -> None:
    graph = ["--graph", "0"] if command == "explain" else []
    output = refuse(command, trained.path, *graph, "--split", "tset")
    assert "no split 'tset'" in output
    assert "train, valid, test, all" in output
    assert "no data set 'nosuch'" in refuse(command, trained.path, "nosuch", *graph)
    assert "no saved graphs" in refuse(command, trained.path, tmp_path, *graph)


@pytest.mark.parametrize(
    "command",
    [
        "evaluate",
        "predict",
        "explain",
    ],
)
def test_graphs_the_model_was_not_made_for(command: str, trained: Trained, tmp_path: Path) -> None:
    store = package.load_dataset("spmotif-0.5", train_per_class=6).test.select([0, 1])
    saved = store.save(tmp_path / "graphs")
    graph = ["--graph", "0"] if command == "explain" else []
    output = refuse(command, trained.path, saved, *graph)
    assert "10 node features" in output
    assert "4" in output


def test_graphs_that_are_damaged(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "graphs.safetensors").write_bytes(b"nonsense")
    assert "damaged" in refuse("predict", trained.path, tmp_path)


def test_predict_that_can_not_be_written(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "p.csv"
    assert f"can't write {out}" in refuse("predict", trained.path, "--out", out)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--graph", "6"], "no graph 6: the graphs are 0 to 5"),
        (["--graph", "-1"], "no graph -1: the graphs are 0 to 5"),
        (["--graph", "0", "--top", "x"], "not 'x'"),
        (["--graph", "0", "--top", "0"], "not '0'"),
        (["--graph", "0", "--top", "-3"], "not '-3'"),
        (["--graph", "0", "--top", "120%"], "not '120%'"),
        (["--graph", "0", "--top", "6", "--above", "0.5"], "--top and --above"),
        (["--graph", "0", "--out", "g.txt"], "must end in .svg"),
        (["--graph", "0", "--out", "g"], "must end in .svg"),
        (["--graph", "0", "--out", "g.npz"], "must end in .svg"),
        ([], "--graph"),
        (["--out", "g.svg"], "--graph"),
        (["--top", "3", "--out", "g.npz"], "--graph"),
    ],
)
def test_explain_refuses(
    arguments: list[str],
    output: str,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert output in refuse("explain", trained.path, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--graph", "0", "--out", "g.png"], ["--out", "s.npz"]])
def test_explain_that_can_not_be_written(
    arguments: list[str], trained: Trained, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    *options, name = arguments
    outcome = gsat("explain", trained.path, *options, tmp_path / "file" / name)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert f"can't write {tmp_path / 'file' / name}" in outcome.err


def test_long_and_odd_values_are_cut_and_escaped(tmp_path: Path) -> None:
    for words in (
        ("train", "x" * 5000),
        ("train", "ba2motifs", "--set", f"lr={'y' * 5000}"),
        ("train", "ba2motifs", "--set", "lr=" + "[" * 5000),
        ("train", "ba2motifs", "--set", "\x1b]0;title\x07=1"),
        ("train", "./" + "x" * 5000 + ".jsonl"),
        ("resume", tmp_path / ("z" * 200) / "\x1b[2J"),
    ):
        said = refuse(*words)
        assert len(said) <= 300
        assert said.isprintable()


def test_a_run_directory_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "\udcff\x1b[2J"  # a byte that is no UTF-8, and an escape sequence
    done = gsat("train", *SMALL, "--epochs", 1, "--out", odd, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert r"\udcff\x1b[2J" in done.out
    assert gsat("runs", tmp_path).code == 0
    assert "already holds a run" in refuse("train", *SMALL, "--out", odd)


def test_an_error_stays_on_one_line(trained: Trained, tmp_path: Path) -> None:
    odd = tmp_path / "two\nlines"
    shutil.copytree(trained.path, odd)
    assert "two\\nlines" in refuse("train", *SMALL, "--out", odd)
