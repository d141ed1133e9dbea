"""Recipes: shipped settings are the paper's, mistakes are named, TOML and hashes are stable."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import DataError, GSATError, RecipeError
from gsat.methods import METHODS, MethodSettings
from gsat.methods.gsat import GSATMethod
from gsat.training.recipe import (
    MOST_NAMED,
    Recipe,
    describe_origin,
    from_tables,
    make_recipe,
    read_recipe,
    to_toml,
    with_settings,
)
from training_harness import one_line

RUNS = Path(__file__).parents[2] / "results" / "runs.jsonl"

# Spec, 1.7. attention, hidden, layers, dropout, batch, epochs, lr, weight decay, interval, final r,
# first selectable epoch.
PUBLISHED: dict[str, dict[str, tuple[Any, ...]]] = {
    "gin": {
        "ba2motifs": ("edge", 64, 2, 0.3, 128, 100, 1e-3, 0.0, 10, 0.5, 40),
        "houses": ("edge", 64, 2, 0.3, 128, 100, 1e-3, 0.0, 10, 0.5, 40),
        "mutag": ("node", 64, 2, 0.3, 128, 100, 1e-3, 0.0, 10, 0.5, 40),
        "spmotif-0.5": ("edge", 64, 2, 0.3, 128, 100, 3e-3, 0.0, 10, 0.7, 20),
        "spmotif-0.95": ("edge", 64, 2, 0.3, 128, 100, 3e-3, 0.0, 10, 0.7, 20),
        "ogbg-molhiv": ("node", 64, 2, 0.3, 128, 200, 1e-3, 0.0, 20, 0.7, 40),
        "ogbg-molsider": ("node", 64, 2, 0.3, 128, 200, 1e-3, 0.0, 20, 0.7, 40),
        "mnist75sp": ("node", 64, 2, 0.3, 256, 200, 1e-3, 0.0, 30, 0.7, 60),
        "graph-sst2": ("edge", 64, 2, 0.3, 128, 100, 1e-3, 0.0, 10, 0.7, 20),
    },
    "pna": {
        "ba2motifs": ("edge", 80, 4, 0.3, 128, 50, 1e-3, 3e-6, 5, 0.5, 20),
        "houses": ("edge", 80, 4, 0.3, 128, 50, 1e-3, 3e-6, 5, 0.5, 20),
        "mutag": ("node", 80, 4, 0.3, 128, 50, 1e-3, 3e-6, 5, 0.5, 20),
        "spmotif-0.5": ("edge", 80, 4, 0.3, 128, 200, 3e-3, 3e-6, 60, 0.7, 120),
        "spmotif-0.9": ("edge", 80, 4, 0.3, 128, 200, 3e-3, 3e-6, 60, 0.7, 120),
        "ogbg-molbace": ("node", 80, 4, 0.3, 128, 100, 1e-3, 3e-6, 10, 0.7, 20),
        "mnist75sp": ("node", 80, 4, 0.3, 256, 200, 1e-3, 3e-6, 30, 0.7, 60),
        "graph-sst2": ("edge", 80, 4, 0.3, 128, 200, 3e-3, 3e-6, 20, 0.7, 40),
    },
    "leconv": {
        "spmotif-0.5": ("edge", 32, 2, 0.0, 128, 200, 3e-3, 0.0, 20, 0.5, 80),
        "spmotif-0.9": ("edge", 32, 2, 0.0, 128, 200, 3e-3, 0.0, 20, 0.5, 80),
    },
}


@pytest.mark.parametrize("method", ["gsat", "gsat-star"])
@pytest.mark.parametrize(
    ("backbone", "name"),
    [(backbone, name) for backbone in PUBLISHED for name in PUBLISHED[backbone]],
)
def test_shipped_recipes_are_the_published_ones(backbone: str, name: str, method: str) -> None:
    recipe, row = make_recipe(name, backbone=backbone, method=method), PUBLISHED[backbone][name]
    net, training, own = recipe.backbone, recipe.training, recipe.settings
    assert (
        own.attention, net.hidden, net.layers, net.dropout, training.batch_size, training.epochs,
        training.lr, training.weight_decay, own.r_interval, own.r_final,
    ) == row[:-1]  # fmt: skip
    assert max(11, own.schedule.epochs_to_final) == row[-1]
    for epoch in range(training.epochs):  # check 4 of the spec: the table of r
        expected = max(0.9 - (epoch // own.r_interval) * 0.1, own.r_final)
        assert own.schedule.r(epoch) == pytest.approx(expected, abs=1e-12)
        # As in the published code, r has to be equal to its final value, not only close to it.
        final = own.schedule.r(epoch) == own.r_final
        assert final == (epoch >= own.schedule.epochs_to_final)
    assert (own.extractor_dropout, own.sampling, own.temperature) == (0.5, "concrete", 1.0)
    assert (own.regulariser, own.info_coef, own.info_on) == ("information", 1.0, "sample")
    assert (own.r_start, own.r_step) == (0.9, 0.1)
    assert (recipe.data.name, net.name, recipe.method, recipe.seed) == (name, backbone, method, 0)
    assert (recipe.data.data_seed, recipe.data.split_seed) == (0, None)
    if backbone == "pna":
        sums = set() if name.startswith("ogbg") else {"sum"}
        assert set(net.aggregators) == {"mean", "min", "max", "std"} | sums
        assert net.scalers == []
    assert from_tables(tomllib.loads(recipe.toml())) == recipe


def test_gsat_star_takes_the_settings_of_gsat_unless_it_has_its_own(tmp_path: Path) -> None:
    shipped = make_recipe("ba2motifs", method="gsat-star").settings
    assert (shipped.r_final, shipped.pretrain_ckpt, shipped.pretrain_epochs) == (0.5, "last", None)
    file = tmp_path / "mine.toml"
    file.write_text(
        "[method.gsat]\nr_final = 0.6\ninfo_coef = 0.1\n"
        '[method.gsat-star]\ninfo_coef = 0.2\npretrain_ckpt = "best"\n'
    )
    own = make_recipe(
        "ba2motifs", method="gsat-star", file=file, settings=["pretrain_epochs=7"]
    ).settings
    assert (own.r_final, own.info_coef) == (0.6, 0.2)
    assert (own.pretrain_ckpt, own.pretrain_epochs) == ("best", 7)
    assert make_recipe("ba2motifs", file=file).settings.info_coef == 0.1
    with pytest.raises(RecipeError, match="no setting 'pretrain_epochs'"):
        make_recipe("ba2motifs", settings=["pretrain_epochs=7"])


def test_data_without_a_recipe_gets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    # The houses' own file is hidden behind a family that has none.
    import gsat.training.recipe as module

    monkeypatch.setattr(module, "recipe_family", lambda name: "no-such-family")
    recipe = make_recipe("houses")
    training, own = recipe.training, recipe.settings
    assert (training.epochs, training.batch_size, training.lr) == (100, 128, 1e-3)
    assert (own.attention, own.r_final, own.r_interval) == ("edge", 0.7, 10)


# -- settings -------------------------------------------------------------------------------------


def test_settings_by_full_and_by_bare_key() -> None:
    pairs = ["training.epochs=7", "lr = 0.5", "method.gsat.r_final=0.6", "attention=node",
             "data.graphs=60", "edge_features=false", "split_seed=4"]  # fmt: skip
    recipe = make_recipe("ba2motifs", settings=pairs)
    assert (recipe.training.epochs, recipe.training.lr) == (7, 0.5)
    assert (recipe.settings.r_final, recipe.settings.attention) == (0.6, "node")
    assert recipe.data.options == {"source": "generated", "graphs": 60}
    assert recipe.backbone.edge_features is False
    assert recipe.data.split_seed == 4
    given: dict[str, Any] = {
        "epochs": 7, "training.lr": 0.5, "r_final": 0.6, "method.gsat.attention": "node",
        "graphs": 60, "backbone.edge_features": False, "data.split_seed": 4,
    }  # fmt: skip
    assert make_recipe("ba2motifs", settings=given) == recipe


def test_single_settings_go_over_the_file_and_the_file_over_the_shipped(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[training]\nepochs = 9\nlr = 0.25\n[method.gsat]\nr_final = 0.6\n")
    recipe = make_recipe("ba2motifs", file=file, settings=["epochs=5"])
    assert (recipe.training.epochs, recipe.training.lr) == (5, 0.25)
    assert (recipe.settings.r_final, recipe.settings.r_interval) == (0.6, 10)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("epohcs=3", "did you mean 'epochs'?"),
        ("method.gsat.r_finl=0.5", "did you mean 'method.gsat.r_final'?"),
        ("zzzzzz=3", "known: seed, members, data.data_seed"),
        ("training.hidden=3", "there is no setting 'training.hidden'"),
        ("name=houses", "there is no setting 'name'"),
        ("epochs", "key=value, not 'epochs'"),
        ("=3", "key=value, not '=3'"),
        ('epochs="3"', "'training.epochs': input should be a valid integer, not '3'"),
        ("epochs=2.5", "'training.epochs': input should be a valid integer, not 2.5"),
        ("epochs=true", "'training.epochs'"),
        ("epochs=0", "'training.epochs': input should be greater than 0, not 0"),
        ("lr=fast", "'training.lr': input should be a valid number, not 'fast'"),
        ("lr=-1", "'training.lr'"),
        ("lr=nan", "'training.lr'"),
        ("lr=inf", "'training.lr'"),
        ("info_coef=inf", "'method.gsat.info_coef'"),
        ("dropout=1.0", "'backbone.dropout'"),
        ("edge_features=1", "'backbone.edge_features'"),
        ("attention=both", "'method.gsat.attention': input should be 'edge' or 'node', not 'both'"),
        ("r_final=0", "'method.gsat.r_final'"),
        ("seed=-1", "'seed'"),
        ("epochs=3\nlr=4", "'training.epochs'"),
        ("graphs=many", "not 'many'"),
        ("source=elsewhere", "'generated' or 'published', not 'elsewhere'"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(setting: str, said: str) -> None:
    with pytest.raises(GSATError) as caught:
        make_recipe("ba2motifs", settings=[setting])
    assert said in one_line(caught.value)
    of_the_data = setting.startswith(("graphs", "source"))
    assert isinstance(caught.value, DataError if of_the_data else RecipeError)


def test_a_key_that_two_settings_have_must_be_written_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Settings(MethodSettings):
        hidden: int = 3

    class Other(GSATMethod):
        name = "other"

    Other.Settings = Settings
    monkeypatch.setitem(METHODS, "other", Other)
    with pytest.raises(RecipeError) as caught:
        make_recipe("ba2motifs", method="other", settings=["hidden=5"])
    assert "could be backbone.hidden or method.other.hidden" in one_line(caught.value)
    recipe = make_recipe("ba2motifs", method="other", settings=["method.other.hidden=5"])
    assert (recipe.settings.hidden, recipe.backbone.hidden) == (5, 64)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "gsatt"}, "did you mean 'gsat'?"),
        ({"backbone": "gcn"}, "did you mean 'gin'?"),
        ({"dataset": "ba2motif"}, "did you mean 'ba2motifs'?"),
        ({"seed": -1}, "'seed'"),
        ({"seed": 1.5}, "'seed'"),
    ],
)
def test_an_unknown_name_is_an_error(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(GSATError) as caught:
        make_recipe(**{"dataset": "ba2motifs", **asked})
    assert said in one_line(caught.value)


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[str | bytes], str]:
    """The message about a recipe file that is refused."""

    def refuse(content: str | bytes) -> str:
        file = tmp_path / "mine.toml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(RecipeError) as caught:
            make_recipe("ba2motifs", file=file)
        return one_line(caught.value)

    return refuse


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("epochs = \n", "is not a TOML file"),
        (b"\xff\xfe", "is not a TOML file"),
        ("[trainnig]\nepochs = 3\n", "there is no setting 'trainnig'"),
        ("epochs = 3\n", "there is no setting 'epochs'"),
        ("[settings]\nepochs = 3\n", "there is no setting 'settings'"),
        ("[method.gsta]\nr_final = 0.5\n", "there is no setting 'method.gsta'"),
        ("[method]\nr_final = 0.5\n", "there is no setting 'method.r_final'"),
        ("[method.gsat]\nr_finl = 0.5\n", "there is no setting 'method.gsat.r_finl'"),
        ("[training]\nepochs = '3'\n", "'training.epochs': input should be a valid integer"),
        ("training = 5\n", "'training'"),
        ("backbone = 'gin'\n", "'backbone'"),
        ("data = 'houses'\n", "'data'"),
        ("method = 'gsat'\n", "'method'"),
        ("[method]\ngsat = 3\n", "'method.gsat'"),
        ("[data]\nname = 'houses'\n", "houses"),
        ("[backbone]\nname = 'pna'\n", "pna"),
        ("[method]\nname = 'erm'\n", "erm"),
    ],
)
def test_a_wrong_file_is_refused(
    content: str | bytes, said: str, refused: Callable[[str | bytes], str]
) -> None:
    assert said in refused(content)


def test_the_recipe_of_a_run_can_be_given_with_another_seed(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(make_recipe("ba2motifs", seed=3, settings={"epochs": 7}).toml())
    assert make_recipe("ba2motifs", file=file).seed == 3
    other = make_recipe("ba2motifs", file=file, seed=5)
    assert (other.seed, other.training.epochs) == (5, 7)


@pytest.mark.parametrize(
    "tables",
    [{}, {"data": {}}, {"data": {"name": 3}}, {"data": {"name": "houses"}}, {"data": "houses"},
     {"data": {"name": "houses"}, "method": "gsat"}],
)  # fmt: skip
def test_incomplete_tables_are_refused(tables: dict[str, Any]) -> None:
    with pytest.raises(RecipeError) as caught:
        from_tables(tables)
    one_line(caught.value)


def test_training_settings_of_one_method(tmp_path: Path) -> None:
    """``[training.NAME]`` goes over ``[training]`` of its file; a caller's file goes over both."""
    erm = make_recipe("ogbg-molbace", backbone="pna", method="erm")
    assert (erm.training.epochs, erm.training.lr, erm.settings.plateau) == (200, 1e-2, 20)
    gsat = make_recipe("ogbg-molbace", backbone="pna")
    assert (gsat.training.epochs, gsat.training.lr) == (100, 1e-3)
    star = make_recipe("ogbg-molbace", backbone="pna", method="gsat-star").settings
    assert (star.pretrain_epochs, star.pretrain_lr, star.pretrain_plateau) == (200, 1e-2, 20)
    own = {"epochs": 400, "batch_size": 32, "lr": 1e-3, "weight_decay": 0.0}  # DIR's authors'
    published = make_recipe("spmotif-0.5", backbone="leconv", method="dir")
    assert published.training.model_dump(exclude_none=True) == own
    file = tmp_path / "r.toml"
    file.write_text(
        "[training]\nepochs = 7\n[training.gsat]\nlr = 0.5\n[training.erm]\nlr = 0.25\n"
    )
    over = make_recipe("ogbg-molbace", backbone="pna", method="erm", file=file)
    assert (over.training.epochs, over.training.lr) == (7, 0.25)
    file.write_text("[training]\nerm = 3\n")
    with pytest.raises(RecipeError, match=r"training\.erm"):
        make_recipe("ogbg-molbace", backbone="pna", method="erm", file=file)


def test_tables_of_molecules_have_a_recipe_of_their_own() -> None:
    for name in ("molecules.csv", "ibench-amide"):
        recipe = make_recipe(name)
        assert recipe.settings.attention == "node"
        assert recipe.training.batch_size == 32
        assert recipe.backbone.edge_features
        assert make_recipe(name, backbone="gin").settings.info_coef == 0.1
    assert make_recipe("graphs.jsonl").training.batch_size == 128


# -- files and hashes ------------------------------------------------------------------------------


def test_toml_keeps_every_kind_of_value() -> None:
    tables = {
        "text": 'a "quoted" \\ é 😀\n', "whole": 3, "small": 1e-300, "large": 1e22, "yes": True,
        "listed": [1, 2], "below": {"deeper": {"x": 0.1}, "beside": "z"}, "empty": {},
    }  # fmt: skip
    assert tomllib.loads(to_toml(tables)) == tables


def test_the_hash_ignores_the_seed_and_nothing_else() -> None:
    base = make_recipe("ba2motifs")
    assert make_recipe("ba2motifs", seed=9).hash() == base.hash()
    assert make_recipe("ba2motifs", settings={"weight_decay": 0}).hash() == base.hash()

    def leaves(tables: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [
            place
            for key, value in tables.items()
            for place in (
                leaves(value, (*path, key)) if isinstance(value, dict) else [(*path, key)]
            )
        ]

    others = {
        "name": "houses", "source": "published", "sampling": "none", "attention": "node",
        "regulariser": "l1", "info_on": "p", "edge_features": False, "batch_norm": "separate",
        "selection": "stable", "snapshot_epochs": "spread", "extractor_norm": "row",
        "readout": "attended",
    }  # fmt: skip
    hashes = {base.hash()}
    places = [p for p in leaves(base.tables()) if p not in (("seed",), ("data", "name"))]
    changed = [("data", "split_seed"), *(p for p in places if p[-1] != "name")]
    for place in changed:
        tables = base.tables()
        table = tables
        for part in place[:-1]:
            table = table[part]
        old = table.get(place[-1]) or 0
        table[place[-1]] = others.get(place[-1]) if place[-1] in others else _other(old)
        recipe: Recipe = from_tables(tables)
        assert recipe != base, place
        hashes.add(recipe.hash())
    assert len(changed) > 20
    assert len(hashes) == 1 + len(changed)
    assert make_recipe("spmotif-0.5").hash() != make_recipe("spmotif-0.7").hash()


def test_a_setting_that_came_after_recorded_runs_leaves_hashes_as_they_are() -> None:
    """The hash is that of the tables without it, unless it has another value than these runs."""
    recipe = make_recipe("houses", method="graphmask")
    tables = recipe.tables()
    assert tables["method"]["graphmask"].pop("mode") == "evaluation"
    assert tables["method"]["graphmask"].pop("constraint") == "relative"
    earlier = from_tables(tables)
    assert earlier.hash() == recipe.hash() == "64edf3360d5cb0a1"  # recorded
    for changed in ({"mode": "training"}, {"constraint": "published"}):
        assert make_recipe("houses", method="graphmask", settings=changed).hash() != recipe.hash()


def _other(value: float) -> float:
    if isinstance(value, int):
        return value + 1
    return 0.25 if not math.isclose(value, 0.25) else 0.5


def test_a_renamed_setting_keeps_its_hash() -> None:
    for name in ("settledness", "stable"):
        recipe = make_recipe("ba2motifs", settings={"selection": name})
        assert (recipe.training.selection, recipe.hash()) == ("stable", "fedd2095d6f7f41e")


def test_absent_settings_do_not_change_the_hash() -> None:
    """So that a new optional setting leaves the names of recorded runs as they are."""
    recipe = make_recipe("ba2motifs", method="gsat-star")
    settings = recipe.settings.model_dump(exclude_none=True)
    assert settings != recipe.settings.model_dump()
    tables = recipe.tables()
    tables["method"]["gsat-star"] = settings
    tables["training"] = recipe.training.model_dump(exclude_none=True)
    bare = {k: v for k, v in tables.items() if k != "seed"}
    expected = hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:16]
    assert recipe.hash() == expected


def test_later_settings_change_the_hash_unless_they_are_at_their_default() -> None:
    recorded = make_recipe(
        "ba2motifs",
        method="ib-subgraph",
        settings={
            "data.source": "published",
            "graph_embedding": "mean",
            "classified": "subgraph",
            "estimator": "random",
            "inner_adam": "kept",
        },
    )
    assert recorded.hash() == "4e0fbf90915faa69"  # of results/runs.jsonl
    tables = recorded.tables()
    for name in ("classified", "estimator", "inner_adam"):
        del tables["method"]["ib-subgraph"][name]
    assert from_tables(tables) == recorded
    changed = {"classified": "both", "estimator": "constant", "inner_adam": "new"}
    hashes = {with_settings(recorded, {k: v}).hash() for k, v in changed.items()}
    assert len(hashes | {recorded.hash()}) == 4


def test_recorded_runs_keep_their_recipes_and_hashes(tmp_path: Path) -> None:
    """A changed default or key would make every recorded run one of another recipe."""
    file, seen = tmp_path / "recipe.toml", set()
    for record in map(json.loads, RUNS.read_text().splitlines()):
        recipe = from_tables(record["recipe"])
        assert recipe.hash() == record["recipe_hash"]
        assert (recipe.method, recipe.backbone.name) == (record["method"], record["backbone"])
        if recipe.hash() not in seen:
            seen.add(recipe.hash())
            file.write_text(recipe.toml())
            assert read_recipe(file) == recipe
            assert recipe.tables()["backbone"] == record["recipe"]["backbone"]
    assert len(seen) > 80


# -- the origin of settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("spmotif-0.7", "the recipe for spmotif"),
        (
            "graphs.jsonl",
            "the defaults for data without a recipe (compared with others where explanations are "
            "known: docs/defaults.md)",
        ),
        ("table.csv", "the defaults for molecules"),
    ],
)
def test_a_shipped_recipe_is_named(data: str, expected: str) -> None:
    described = describe_origin(make_recipe(data, seed=7, settings={"split_seed": 3}))
    assert described == expected  # neither the seed nor the split is a matter of the recipe


def test_changed_settings_are_named_up_to_a_limit() -> None:
    changed = {
        "epochs": 3, "lr": 0.5, "hidden": 8, "layers": 1, "r_final": 0.6, "info_coef": 2.0,
        "temperature": 2.0, "attention": "edge",
    }  # fmt: skip
    one = make_recipe("mutag", backbone="gin", settings={"attention": "edge"})
    assert describe_origin(one) == "the recipe for mutag, with attention=edge"
    many = describe_origin(make_recipe("mutag", backbone="gin", settings=changed))
    assert many.startswith("the recipe for mutag, with hidden=8, layers=1")
    assert many.endswith("and 2 others")
    assert many.count("=") == MOST_NAMED


def test_data_that_is_not_installed_is_not_an_error() -> None:
    recipe = make_recipe("mutag")
    unknown = recipe.model_copy(update={"data": recipe.data.model_copy(update={"name": "gone"})})
    assert describe_origin(unknown) == "of its own"
