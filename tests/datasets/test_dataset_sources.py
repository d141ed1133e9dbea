"""Data sets by name: their options, families, plug-ins; what must not change about them."""

from __future__ import annotations

import contextlib
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_geometric.data import Data

import gsat
from gsat.cli.app import run
from gsat.core.errors import DataError
from gsat.datasets import (
    DatasetSource,
    dataset_names,
    describe_options,
    find_source,
    make_options,
)
from gsat.datasets.own_options import OwnDataOptions
from gsat.datasets.registry import (
    full_name,
    is_own_data,
    is_path,
    options_type,
    paper_match,
    recipe_family,
)
from gsat.datasets.sources import spmotif
from gsat.graphs import GraphStore, from_pyg
from gsat.tasks import Task
from gsat.training.recipe import make_recipe
from own_data import make_graphs

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize("name", [*dataset_names(), "/some/where.jsonl", "/some/mols.csv"])
def test_every_data_set_and_option_is_described(name: str) -> None:
    if not is_own_data(name):
        assert 20 < len(find_source(name).summary(name)) < 100
    for option in describe_options(name):
        assert option.description
        assert option.default != "required"


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spmotif-0.83", "spmotif-0", "spmotif-1.0", "spmotif-.5"])
def test_names_of_a_family(name: str) -> None:
    assert isinstance(find_source(name), spmotif.SpuriousMotif)
    assert options_type(name) is options_type("spmotif-0.5")
    assert recipe_family(name) == "spmotif"


@pytest.mark.parametrize("name", ["spmotif", "spmotif-2", "ogbg-molnone", "house", "", "-"])
def test_names_of_no_data_set(name: str) -> None:
    with pytest.raises(DataError, match=f"no data set '{name}': .*available: .*ba-shapes"):
        find_source(name)
    with pytest.raises(DataError):
        make_options(name, {})


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/b", "x.jsonl", "x.jsonl.gz", "x.zip", "spmotif-0.5.zip", "./houses"):
        assert is_path(name)
        assert is_own_data(name)
        assert full_name(name) == str(tmp_path / name)
    assert not is_path("folder")
    for name in ("folder", "houses", "spmotif-0.7", "spmotif-x"):
        (tmp_path / name).mkdir()
    assert is_path("folder")
    assert is_path("spmotif-x")
    for name in ("houses", "spmotif-0.7", "custom", ""):  # names go before folders
        assert not is_path(name)
        assert full_name(name) == name
    assert is_own_data("custom")
    with pytest.raises(DataError, match=r"'x\.zip' stands for graphs of your own"):
        find_source("x.zip")


def test_only_the_papers_data_is_compared_with_the_paper(tmp_path: Path) -> None:
    assert paper_match("mutag", "yes") == "yes"
    assert paper_match("spmotif-0.6", "different") == "different"
    for name in ("custom", str(tmp_path), "ba-shapes", "motif-count", "gone-plug-in"):
        assert paper_match(name, "different") is None


def test_names_and_lists_import_nothing_heavy() -> None:
    script = """
import sys
from gsat.datasets import registry
registry.dataset_names()
for name in ("x.jsonl", "custom", "houses", "spmotif-0.83", "nosuch"):
    registry.is_path(name)
registry.make_options("spmotif-0.83", {"undirected": True})
imported = {n for n in sys.modules if n.startswith("gsat.datasets.sources.")}
assert imported <= {"gsat.datasets.sources.spmotif"}, imported
for name in registry.dataset_names():
    source = registry.find_source(name)
    source.summary(name), source.sources(name), registry.describe_options(name)
registry.describe_options("custom")
heavy = {"torch", "torch_geometric", "numba", "networkx", "scipy", "skimage", "transformers"}
sys.exit(",".join(sorted(heavy & set(sys.modules))) or 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- options ----------------------------------------------------------------------------------

DEFAULTS: dict[str, dict[str, Any]] = {
    "ba-shapes": {"motifs": 80},
    "ba2motifs": {"source": "generated", "graphs": 1000},
    "graph-sst2": {"source": "trees", "vectors": "minilm", "sentences": 0},
    "houses": {"graphs": 1000},
    "mnist75sp": {"source": "images", "images": 0},
    "motif-count": {"graphs": 1000, "level": "graph"},
    "mutag": {"source": "published", "test": "paper", "drop_unannotated": True},
    "ogbg-molhiv": {},
    "planted": {
        "smarts": ["[NX3][CX3]=[OX1]"], "rule": "any", "weights": [], "table": "", "smiles": "",
        "molecules": 2000, "balance": True,
    },
    "rbgv": {"graphs": 1000},
    "spmotif-0.7": {"undirected": False, "tree_heights": "class", "train_per_class": 3000},
    "tree-cycles": {"motifs": 80},
    "/some/where.jsonl": {
        "task": "auto", "level": "auto", "metric": "auto", "classes": [], "split": "auto",
        "train": 0.8, "valid": 0.1, "test": 0.1, "folds": 10, "fold": 0, "content": "",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_recipes_hold_every_option_with_its_default(name: str) -> None:
    """The names of recorded runs are made of these: a new option needs a new name for all runs."""
    assert make_options(name, {}).model_dump() == DEFAULTS[name]
    assert make_recipe(name).data.options == DEFAULTS[name]


def test_numbers_keep_their_types() -> None:
    chosen = make_options("custom", {"classes": ["a", 2], "train": 0.5})
    assert isinstance(chosen, OwnDataOptions)
    assert chosen.classes == ["a", 2]
    with pytest.raises(DataError, match=r"'train': .*less than 1, not 1"):
        make_options("custom", {"train": 1})
    for value in (60.0, "60", True, None):
        with pytest.raises(DataError, match=r"'graphs': .*, not "):
            make_options("houses", {"graphs": value})


def test_options_of_a_data_set_that_has_none() -> None:
    with pytest.raises(DataError, match=r"no setting 'source' in .*ogbg-molhiv"):
        make_options("ogbg-molhiv", {"source": "x"})
    with pytest.raises(DataError, match=r"'slpit' in .*did you mean 'split'"):
        make_options("custom", {"slpit": "random"})


# -- the same graphs as ever ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("ba2motifs", {"graphs": 20}, "e3cda1e7500d4896"),
        ("houses", {"graphs": 20}, "913f540f6709e1f2"),
        ("spmotif-0.5", {"train_per_class": 6}, "41e779d3d4339daf"),
        (
            "spmotif-0.83",
            {"train_per_class": 6, "undirected": True, "tree_heights": "same"},
            "1feea15968a42866",
        ),
        ("ba-shapes", {"motifs": 5}, "7131bd08b6c7b644"),
        ("tree-cycles", {"motifs": 5}, "0ee8ab5964497419"),
        ("motif-count", {"graphs": 20}, "33b1b41f4c5d5eb5"),
        ("motif-count", {"graphs": 20, "level": "node"}, "f9d4ca6b937b31d9"),
        ("rbgv", {"graphs": 20}, "fa69c2a36b9a73f2"),
    ],
)
def test_hashes_are_frozen(name: str, options: dict[str, Any], expected: str) -> None:
    """The whole sets, and those with raw files, are compared in test_cards.py."""
    assert gsat.load_dataset(name, **options).hash == expected


def test_recorded_runs_are_of_the_data_on_the_cards() -> None:
    def key(name: str, options: dict[str, Any]) -> tuple[str, str]:
        return name, json.dumps(options, sort_keys=True)

    cards = {}
    for path in (RESULTS / "cards").glob("*.json"):
        card = json.loads(path.read_text("utf-8"))
        cards[key(card["name"], card["options"])] = card["hash"]
    compared = 0
    for line in (RESULTS / "runs.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        data = {k: v for k, v in record["recipe"]["data"].items() if k != "split_seed"}
        recorded = key(data.pop("name"), data)
        if recorded in cards and "data_hash" in record:
            assert record["data_hash"] == cards[recorded]
            compared += 1
    assert compared > 100


# -- from outside -----------------------------------------------------------------------------

OUTSIDE = '''
import numpy as np
import torch
from pydantic import Field
from torch_geometric.data import Data

import gsat
from gsat.datasets import DatasetOptions, DatasetSource
from gsat.graphs import GraphStore, from_pyg
from gsat.tasks import Task


class Rings(DatasetSource):
    """Rings of random length: is it longer than five nodes?"""

    class Options(DatasetOptions):
        graphs: int = Field(40, ge=10, description="number of rings")
        noise: float = Field(0.0, ge=0, description="of the features")

    def task(self, name: str, options: Options) -> Task:
        return Task("binary")

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        rng = np.random.RandomState(data_seed)
        sizes = rng.randint(3, 9, options.graphs)
        return from_pyg(ring(int(size), options.noise) for size in sizes)


def ring(size: int, noise: float) -> Data:
    nodes = torch.arange(size)
    one_way = torch.stack([nodes, (nodes + 1) % size])
    return Data(
        x=torch.full((size, 2), 1 + noise),
        edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
        y=torch.tensor([[float(size > 5)]]),
    )
'''


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a module `rings_of_mine` that declares a data set."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "rings_of_mine.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "rings_of_mine", raising=False)
    return folder


def announce(folder: Path, name: str, target: str) -> None:
    """As pip does when it installs a package with an entry point."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gsat.datasets]\n{name} = {target}\n")
    importlib.invalidate_caches()


def test_one_file_in_a_script_is_a_data_set(outside: Path, tmp_path: Path) -> None:
    rings = importlib.import_module("rings_of_mine").Rings
    assert gsat.register_dataset("rings")(rings) is rings
    assert "rings" in dataset_names()
    data = gsat.load_dataset("rings", graphs=20, noise=1)
    assert [len(part) for part in (data.train, data.valid, data.test)] == [16, 2, 2]
    assert data.options == {"graphs": 20, "noise": 1.0, "data_seed": 0}
    assert data.matches_paper == "different"
    assert paper_match("rings", data.matches_paper) is None
    with pytest.raises(DataError, match=r"'graph' in .*'rings'.*did you mean 'graphs'"):
        gsat.load_dataset("rings", graph=20)
    recipe = make_recipe(
        "rings", settings={"graphs": 20, "epochs": 2, "hidden": 4, "layers": 1, "noise": 0.5}
    )
    assert recipe.data.options == {"graphs": 20, "noise": 0.5}
    run = gsat.train(recipe, tmp_path / "run")
    assert 0 <= run.test["accuracy"] <= 1
    assert run.test["explanation_auc"] is None


def test_a_plug_in_is_found_by_its_entry_point(outside: Path) -> None:
    announce(outside, "plugged-rings", "rings_of_mine:Rings")
    assert "plugged-rings" in dataset_names()
    assert "rings_of_mine" not in sys.modules
    assert find_source("plugged-rings").summary("").startswith("Rings of random length")
    assert len(gsat.load_dataset("plugged-rings").store) == 40


def test_a_broken_plug_in_spoils_no_other_data(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    announce(outside, "broken-rings", "rings_of_mine:NoSuchClass")
    with pytest.raises(DataError, match=r"plug-in data set 'broken-rings' \(rings_of_mine:NoSuch"):
        gsat.load_dataset("broken-rings")
    assert len(gsat.load_dataset("houses", graphs=20).store) == 20
    assert len(gsat.load_dataset(make_graphs()).store) == 40
    with contextlib.suppress(SystemExit):
        run(["datasets"])
    shown = capsys.readouterr().out
    assert "houses" in shown
    assert "'broken-rings' (rings_of_mine:NoSuchClass) can't be imported" in " ".join(shown.split())


def test_invalid_data_set_classes() -> None:
    @gsat.register_dataset("half")
    class Half(DatasetSource):
        """It has no graphs."""

        def task(self, name: str, options: Any) -> Task:
            return Task("binary")

    with pytest.raises(DataError, match="the data set 'half' lacks build"):
        gsat.load_dataset("half")

    @gsat.register_dataset("taskless")
    class Taskless(Half):
        def build(self, name: str, options: Any, data_seed: int) -> GraphStore:
            return from_pyg(make_graphs())

        task = DatasetSource.task

    with pytest.raises(DataError, match="the data set 'taskless' lacks task_settings"):
        gsat.load_dataset("taskless")
    gsat.register_dataset("thing")(type("Thing", (), {}))  # type: ignore[type-var]
    with pytest.raises(DataError, match="'thing' must be a subclass of DatasetSource"):
        gsat.load_dataset("thing")
    with pytest.raises(DataError, match="there is a data set 'houses' already"):
        gsat.register_dataset("houses")(Half)


@pytest.mark.parametrize("wrong", ["list", "splits"])
def test_what_a_data_set_must_return(wrong: str) -> None:
    @gsat.register_dataset(f"wrong-{wrong}")
    class Wrong(DatasetSource):
        """It returns something else."""

        def task(self, name: str, options: Any) -> Task:
            return Task("binary")

        def build(self, name: str, options: Any, data_seed: int) -> GraphStore:
            graphs: list[Data] = make_graphs()
            return graphs if wrong == "list" else from_pyg(graphs)  # type: ignore[return-value]

        def split(self, store: GraphStore, seed: int, options: Any) -> dict[str, Any]:
            return {"train": np.arange(3), "dev": np.arange(3, 6)}

    expected = "must return a GraphStore" if wrong == "list" else "must return train, valid, test"
    with pytest.raises(DataError, match=expected):
        gsat.load_dataset(f"wrong-{wrong}")


def test_the_example_of_the_docs_runs() -> None:
    blocks = (RESULTS.parent / "docs" / "data.md").read_text("utf-8").split("```python\n")
    (example,) = [block.split("```")[0] for block in blocks if "class Triangles" in block]
    values: dict[str, Any] = {"__name__": "docs"}
    exec(compile(example, "docs/data.md", "exec"), values)
    assert len(values["data"].store) == 50
