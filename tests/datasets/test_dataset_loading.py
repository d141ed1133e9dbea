"""`load_dataset`: options and their errors, raw files, the cache, determinism."""

from __future__ import annotations

import hashlib
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loopback import serving

import gsat.graphs.storage
from gsat.cli.output import print_source
from gsat.core import system
from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.tensors import map_tensors, write_tensors
from gsat.datasets import cache as cache_module
from gsat.datasets import find_source, make_options
from gsat.datasets.fetch import transfer
from gsat.datasets.load import load_dataset
from gsat.datasets.sources.ba2motifs import BA2Motifs, Houses
from gsat.graphs import GraphStore
from gsat.study.study import Experiment
from gsat.training.recipe import from_tables, make_recipe, with_settings

SMALL: dict[str, dict[str, Any]] = {
    "ba2motifs": {"graphs": 20},
    "houses": {"graphs": 20},
    "spmotif-0.5": {"train_per_class": 6},
}


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the data sets built so far: `houses` only."""
    names: list[str] = []
    build = Houses.build

    def counting(self: Houses, name: str, options: Any, data_seed: int) -> GraphStore:
        names.append(name)
        return build(self, name, options, data_seed)

    monkeypatch.setattr(Houses, "build", counting)
    return names


def cached_file(cache: Path) -> Path:
    (path,) = cache.glob("datasets/*/graphs.safetensors")
    return path


# -- determinism ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_data_seed_decides_the_graphs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for number, data_seed in enumerate((0, 0, 1)):
        monkeypatch.setenv("GSAT_CACHE", str(tmp_path / str(number)))  # nothing to read back
        hashes.append(load_dataset(name, data_seed=data_seed, **SMALL[name]).hash)
    assert hashes[0] == hashes[1] != hashes[2]
    assert load_dataset(name, seed=9, data_seed=1, **SMALL[name]).hash == hashes[2]


def test_generating_leaves_numpys_global_generator_alone(cache: Path) -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    for name, options in SMALL.items():
        load_dataset(name, **options)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


# -- names, options, seeds --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "houses",
            {"graph": 10},
            "'graph' in .*'houses'.*did you mean 'graphs'",
        ),
        ("houses", {"graphs": "10"}, "'graphs': .*not '10'"),
        ("houses", {"graphs": True}, "'graphs': .*not True"),
        (
            "ba2motifs",
            {"source": "elsewhere"},
            "'source': .*'generated' or 'published', not 'elsewhere'",
        ),
        ("spmotif-0.5", {"undirected": 1}, "'undirected': .*not 1"),
        ("mutag", {"test": "half"}, "'test': .*'paper' or 'held-out', not 'half'"),
        ("houses", {"seed": -1}, "seed must be a whole number from 0 to 4294967295, not -1"),
        ("houses", {"data_seed": 2**32}, "data_seed must be a whole number"),
        ("houses", {"seed": 0.5}, "seed must be a whole number"),
        ("houses", {"seed": True}, "seed must be a whole number"),
    ],
)
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_dataset(name, **options)


def test_seeds_may_be_numpys() -> None:
    ours = load_dataset("houses", seed=np.int64(4), data_seed=np.uint8(2), graphs=20)  # type: ignore[arg-type]
    plain = load_dataset("houses", seed=4, data_seed=2, graphs=20)
    assert ours.hash == plain.hash
    assert (ours.splits["test"] == plain.splits["test"]).all()


# -- the cache --------------------------------------------------------------------------------


def test_second_load_reads_the_cache(cache: Path, builds: list[str]) -> None:
    first = load_dataset("houses", graphs=20)
    second = load_dataset("houses", seed=1, graphs=20)  # another split of the same graphs
    assert builds == ["houses"]
    assert second.hash == first.hash
    assert second.store.meta == first.store.meta
    assert (second.store.arrays["x"] == first.store.arrays["x"]).all()
    load_dataset("houses", graphs=20, data_seed=1)
    load_dataset("houses", graphs=30)
    assert builds == ["houses"] * 3


def test_a_new_version_is_built_again(
    cache: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_dataset("houses", graphs=20)
    monkeypatch.setattr(Houses, "version", Houses.version + 1)
    load_dataset("houses", graphs=20)
    assert len(builds) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "folder"])
def test_damaged_cache_is_made_again(cache: Path, builds: list[str], damage: str) -> None:
    first = load_dataset("houses", graphs=20).hash
    path = cached_file(cache)
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            {"empty": b"", "cut": content[: len(content) // 2], "garbage": b"\xff" * 4000}[damage]
        )
    assert load_dataset("houses", graphs=20).hash == first
    assert len(builds) == 2
    if damage != "folder":  # which is not ours to remove
        assert load_dataset("houses", graphs=20).hash == first
        assert len(builds) == 2


def change(file: Path, name: str, alter: Any) -> None:
    """Change an array of a store, and keep the file valid."""
    arrays, metadata = map_tensors(file, error=DataError)
    changed = {key: values.copy() for key, values in arrays.items()}
    changed[name] = alter(changed[name])
    write_tensors(file, changed, metadata)


def out_of_range(values: Any) -> Any:
    values[0] = 10**6
    return values


@pytest.mark.parametrize(
    ("name", "alter"),
    [
        ("y", lambda y: 1 - y),
        ("x", lambda x: (x * 2).astype(x.dtype)),
        ("edge_truth", lambda t: (1 - t).astype(t.dtype)),
        ("src", out_of_range),
        ("order", lambda o: o[::-1].copy()),
    ],
)
def test_a_cache_that_was_changed_is_made_again(
    name: str, alter: Any, cache: Path, builds: list[str]
) -> None:
    before = load_dataset("houses", graphs=20)
    wanted = {key: np.array(values) for key, values in before.store.arrays.items()}
    change(cached_file(cache), name, alter)
    for _ in range(2):
        again = load_dataset("houses", graphs=20)
        assert again.hash == before.hash
        assert len(builds) == 2
    for key, values in wanted.items():
        np.testing.assert_array_equal(np.asarray(again.store.arrays[key]), values)


def test_a_version_of_a_file_is_hashed_once_per_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_dataset("houses", graphs=20)
    hashed: list[object] = []
    real = cache_module.content_hash
    monkeypatch.setattr(
        cache_module, "content_hash", lambda s, *more: hashed.append(s) or real(s, *more)
    )
    for _ in range(3):
        load_dataset("houses", graphs=20)
    assert len(hashed) <= 1
    change(cached_file(cache), "y", lambda y: 1 - y)
    load_dataset("houses", graphs=20)
    assert len(hashed) >= 2


def test_unwritable_cache(
    tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        data = load_dataset("houses", graphs=20)
        assert len(data.train) == 16
        assert data.hash
    assert len(builds) == 2


def test_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(system, "write", full)
    assert len(load_dataset("houses", graphs=20).store) == 20
    assert not list(cache.glob("datasets/*/*"))


def test_replaced_before_it_was_read_back(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by another process that wrote the same set, and removed the shards of this one."""

    def gone(folder: Path) -> None:
        raise DataError(f"{folder} is damaged")

    monkeypatch.setattr(gsat.graphs.storage, "load", gone)
    assert len(load_dataset("houses", graphs=20).store) == 20


# -- raw files --------------------------------------------------------------------------------

NEEDS_FILE = [("mutag", {}), ("ba2motifs", {"source": "published"})]


@pytest.mark.parametrize(("name", "options"), NEEDS_FILE)
@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_missing_and_wrong_files(
    name: str,
    options: dict[str, Any],
    content: bytes | None,
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_DATA", str(tmp_path / "data"))
    (file,) = find_source(name).raw_files(name, make_options(name, options))
    if content is None:
        wanted = file.instead or file
        named = [Path(wanted.path).name, str(cache / "raw" / wanted.path), "PGExplainer"]
    else:
        path = tmp_path / "data" / file.path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        assert isinstance(file.sha256, str)
        named = [str(path), hashlib.sha256(content).hexdigest()[:12], file.sha256[:12]]
    with pytest.raises(DataNotFoundError if content is None else DataError) as caught:
        load_dataset(name, **options)
    assert all(part in str(caught.value) for part in named)


def test_file_in_the_cache(
    cache: Path, raw_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "ba_2motifs/BA_2Motifs_dense.npz"
    (cache / "raw" / path).parent.mkdir(parents=True)
    shutil.copy(raw_file(path), cache / "raw" / path)
    monkeypatch.delenv("GSAT_DATA")
    first = load_dataset("ba2motifs", source="published")
    assert first.store.num_edges == 50_960
    # Once processed, neither the file nor the data seed matters.
    (cache / "raw" / path).unlink()
    again = load_dataset("ba2motifs", source="published", data_seed=5)
    assert again.hash == first.hash
    assert again.matches_paper == "yes"


# -- the source where none is given ----------------------------------------------------------------


PUBLISHED_FILES = ["ba_2motifs/BA_2Motifs_dense.npz", "ba_2motifs/BA-2motif.pkl"]


@pytest.fixture(params=PUBLISHED_FILES)
def file_of_the_paper(request: pytest.FixtureRequest, raw: Path) -> Path:
    """A file in the place of the published graphs, which recipes do not read."""
    path = raw / request.param
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    return path


def source_of(**given: Any) -> Any:
    return make_recipe("ba2motifs", **given).data.options["source"]


def test_the_papers_graphs_are_used_where_their_file_is(file_of_the_paper: Path) -> None:
    assert source_of() == "published"
    assert source_of(settings={"data.split_seed": 3, "epochs": 2}, seed=4) == "published"
    file_of_the_paper.unlink()
    assert source_of() == "generated"


@pytest.mark.parametrize(
    "settings", [{"source": "generated"}, {"graphs": 1000}, {"graphs": 60}, {"data_seed": 1}]
)
def test_graphs_are_generated_if_an_option_is_given(
    file_of_the_paper: Path, settings: dict[str, Any]
) -> None:
    assert source_of(settings=settings) == "generated"
    assert load_dataset("ba2motifs", **settings).options["source"] == "generated"


def test_a_damaged_file_of_the_paper_is_refused(file_of_the_paper: Path) -> None:
    with pytest.raises(DataError, match=re.escape(str(file_of_the_paper))):
        load_dataset("ba2motifs")


def test_a_complete_recipe_does_not_depend_on_files(file_of_the_paper: Path) -> None:
    recipe = make_recipe("ba2motifs", look_for_files=False)
    assert recipe.data.options["source"] == "generated"
    changed = with_settings(recipe, {"epochs": 3})
    assert changed.data.options["source"] == "generated"
    tables = recipe.tables()
    del tables["data"]["source"]  # as in the recipe of an old run
    assert from_tables(tables) == recipe


def test_studies_mean_the_same_with_and_without_the_file(file_of_the_paper: Path) -> None:
    here = Experiment("ba2motifs", "gsat").recipe(0).hash()
    file_of_the_paper.unlink()
    assert Experiment("ba2motifs", "gsat").recipe(0).hash() == here
    assert here == make_recipe("ba2motifs", settings={"source": "generated"}).hash()


def test_the_source_is_told(file_of_the_paper: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_source(make_recipe("ba2motifs"))
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert str(file_of_the_paper) in line
    for settings in ({"graphs": 60}, {"data_seed": 1}, {"source": "generated"}):
        print_source(make_recipe("ba2motifs", settings=settings))
    print_source(make_recipe("houses"))
    assert not capsys.readouterr().out  # the user or nobody decides
    file_of_the_paper.unlink()
    print_source(make_recipe("ba2motifs"))
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert "generated" in line


def test_the_papers_file_is_loaded(cache: Path, raw_file: Callable[[str], Path]) -> None:
    raw_file("ba_2motifs/BA_2Motifs_dense.npz")
    found = load_dataset("ba2motifs")
    assert found.store.num_edges == 50_960
    assert found.matches_paper == "yes"


# -- the published pickle of BA-2Motifs ----------------------------------------------------------


@pytest.fixture
def published_pickle(
    cache: Path, raw_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """The published arrays as PGExplainer pickled them; the npz is out of reach."""
    with np.load(raw_file("ba_2motifs/BA_2Motifs_dense.npz"), allow_pickle=False) as arrays:
        content = (
            arrays["adj"].astype(np.float64),
            arrays["features"].astype(np.float64),
            arrays["labels_onehot"].astype(np.int64),
        )
    monkeypatch.delenv("GSAT_DATA")
    return pickle.dumps(content, 2)


def test_published_pickle_gives_the_same_graphs(
    cache: Path, published_pickle: bytes, raw_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cache / "raw" / "ba_2motifs" / "BA-2motif.pkl"
    path.parent.mkdir(parents=True)
    path.write_bytes(published_pickle)
    ours = load_dataset("ba2motifs", source="published")
    monkeypatch.setenv("GSAT_DATA", str(raw_data))
    monkeypatch.setenv("GSAT_CACHE", str(cache / "other"))
    theirs = load_dataset("ba2motifs", source="published")
    assert ours.hash == theirs.hash
    assert ours.store.meta == theirs.store.meta
    assert ours.store.arrays.keys() == theirs.store.arrays.keys()
    for name, array in theirs.store.arrays.items():
        np.testing.assert_array_equal(ours.store.arrays[name], array)


def test_another_pickle_is_refused(cache: Path, published_pickle: bytes) -> None:
    path = cache / "raw" / "ba_2motifs" / "BA-2motif.pkl"
    path.parent.mkdir(parents=True)
    adjacency, features, labels = pickle.loads(published_pickle)
    adjacency[3, 4, 5] += 1
    for content, why in (
        ((adjacency, features, labels), "does not hold the published graphs"),
        ((adjacency[:5], features, labels), "does not hold the published graphs"),
        ((adjacency, features), "does not hold adjacencies, features and labels"),
        ((adjacency, features, labels[0]), "does not hold adjacencies, features and labels"),
        ({"adj": 1}, "does not hold adjacencies, features and labels"),
        ((adjacency, features, print), "asks for 'builtins.print'"),
    ):
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(DataError, match=why) as caught:
            load_dataset("ba2motifs", source="published")
        assert str(path) in str(caught.value)


def test_missing_files_are_downloaded(
    cache: Path, published_pickle: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first byte to the graphs; only the address is another."""
    monkeypatch.delenv("GSAT_OFFLINE")
    (file,) = BA2Motifs.files["published"]
    assert file.instead is not None
    assert file.instead.url.startswith("https://github.com/flyingdoog/PGExplainer/")
    with serving() as server:
        served = server.put("BA-2motif.pkl", published_pickle, breaks=[100_000])
        here = replace(file, instead=replace(file.instead, url=server.url("BA-2motif.pkl")))
        monkeypatch.setitem(BA2Motifs.files, "published", (here,))
        monkeypatch.setattr(transfer, "PAUSES", (0.0,))
        data = load_dataset("ba2motifs", source="published")
    assert data.store.num_edges == 50_960
    assert sum(served.sent) == len(published_pickle)
    assert [p.name for p in (cache / "raw" / "ba_2motifs").iterdir()] == ["BA-2motif.pkl"]
