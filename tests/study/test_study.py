"""Studies as files: the shipped ones hold the paper's numbers, and users can write their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import GSATError
from gsat.core.registry import DATASETS, METHODS
from gsat.study.study import PREDICTION, Experiment, Study, find_study, read_study, shipped_studies
from gsat.training.members import member_recipes

RUNS = Path(__file__).parents[2] / "results" / "runs.jsonl"


def find_published(*key: str) -> tuple[float, float | None] | None:
    """The paper's number by method, backbone, data set and metric."""
    cells = (cell for study in shipped_studies() if study.in_paper for cell in study.cells)
    for c in cells:
        row = c.row
        if not row.variant and (row.method, row.backbone, c.dataset, c.table.metric) == key:
            return c.published
    return None


def published(study: Study, method: str, backbone: str = "gin") -> list[float]:
    """The published means of a row without variant."""
    return [
        cell.published[0]
        for cell in study.cells
        if (cell.row.method, cell.row.backbone, cell.row.variant) == (method, backbone, "")
        and cell.published is not None
    ]


def test_the_papers_tables_are_complete() -> None:
    """Rows times columns, counted by hand in the paper."""
    cells = {
        study.name: sum(cell.published is not None for cell in study.cells)
        for study in shipped_studies()
        if study.in_paper
    }
    assert cells == {
        "table1": 9 * 6, "table2": 8 * 6, "table3": 3 * 5, "table4": 6 * 3, "table5": 9 * 3,
        "table6": 4 * 2, "table7": 4 * 3, "table8": 9 * 3,
    }  # fmt: skip
    assert sum(cells.values()) == 209
    # The upper half of table 5 has the runs of the lower half.
    assert len(find_study("table5").experiments) == 5 * 3


def test_published_numbers_are_the_papers() -> None:
    table1 = find_study("table1")
    assert table1.datasets == [
        "ba2motifs", "mutag", "mnist75sp", "spmotif-0.5", "spmotif-0.7", "spmotif-0.9"
    ]  # fmt: skip
    assert published(table1, "gsat") == [98.74, 99.60, 83.36, 78.45, 74.07, 71.97]
    assert published(table1, "ib-subgraph") == [86.06, 91.04, 51.20, 57.29, 62.89, 47.29]
    assert published(table1, "gsat-star", "pna") == [89.04, 96.22, 88.54, 90.55, 89.79, 89.54]
    assert published(find_study("table2"), "erm") == [76.69, 82.73, 95.74, 39.87, 39.04, 38.57]
    assert published(find_study("table3"), "gsat", "pna") == [77.41, 69.17, 87.80, 74.96, 57.58]
    assert published(find_study("table4"), "vrex", "leconv") == [39.43, 39.08, 34.81]
    assert published(find_study("table7"), "gnnexplainer", "leconv") == [20.3, 16.7, 6.6]
    assert find_published("gsat-star", "pna", "ogbg-molhiv", PREDICTION) == (80.67, 0.95)
    assert find_published("gmt", "gin", "mutag", "explanation_auc") is None  # a later paper
    (first, *_) = [c for c in find_study("table6").cells if c.dataset == "mutag"]
    assert first.published == (72.7, None)


def test_numbers_of_seeds_are_the_papers() -> None:
    seeds = {cell.row.method: cell.published_seeds for cell in find_study("table1").cells}
    assert seeds["ib-subgraph"] == 5
    assert {count for method, count in seeds.items() if method != "ib-subgraph"} == {10}
    quoted = {c.row.method for c in find_study("table4").cells if c.published_seeds is None}
    assert quoted == {"erm", "vrex", "irm", "dir"}


def test_gmt_has_the_settings_of_its_authors() -> None:
    """T, weight of the information, epochs per step of r, and warm start, as in their script."""
    published = {
        ("lin", "gin", "ba2motifs"): (None, 0.5, 10, False),
        ("lin", "gin", "mutag"): (None, 0.1, 10, False),
        ("lin", "gin", "mnist75sp"): (None, 1.0, 30, False),
        ("lin", "gin", "spmotif-0.5"): (None, 0.5, 10, False),
        ("lin", "gin", "spmotif-0.7"): (None, 0.5, 10, False),
        ("lin", "gin", "spmotif-0.9"): (None, 0.5, 10, False),
        ("sam", "gin", "ba2motifs"): (10, 0.1, 10, True),
        ("sam", "gin", "mutag"): (100, 0.1, 10, False),
        ("sam", "gin", "mnist75sp"): (100, 0.1, 30, True),
        ("sam", "gin", "spmotif-0.5"): (80, 0.5, 10, False),
        ("sam", "gin", "spmotif-0.7"): (200, 0.1, 20, False),
        ("sam", "gin", "spmotif-0.9"): (200, 0.1, 20, False),
        ("sam", "gin", "ogbg-molhiv"): (100, 0.1, 20, False),
        ("sam", "gin", "graph-sst2"): (100, 1.0, 10, False),
        ("sam", "pna", "ba2motifs"): (20, 0.1, 5, False),
        ("sam", "pna", "mutag"): (1, 0.5, 5, False),
        ("sam", "pna", "mnist75sp"): (1, 0.1, 30, False),
        ("sam", "pna", "spmotif-0.5"): (80, 1.0, 60, False),
        ("sam", "pna", "spmotif-0.7"): (100, 0.1, 60, False),
        ("sam", "pna", "spmotif-0.9"): (80, 1.0, 60, False),
        ("sam", "pna", "ogbg-molhiv"): (100, 0.5, 10, False),
        ("sam", "pna", "graph-sst2"): (100, 0.5, 20, False),
    }
    found = {}
    for cell in find_study("gmt").cells:
        one = cell.experiment.recipe(0).settings
        samples = one.samples if one.variant == "sam" else None
        key = cell.row.variant, cell.row.backbone, cell.dataset
        found[key] = samples, one.info_coef, one.r_interval, one.warm_start
    del found["lin-like-sam", "gin", "ba2motifs"]
    assert found == published


def test_recorded_runs_of_improved_baselines_are_in_their_study() -> None:
    lines = RUNS.read_text(encoding="utf-8").splitlines()
    recorded = {line["recipe_hash"] for line in map(json.loads, lines)}
    cells = [c for c in find_study("baselines").cells if c.row.variant]
    assert len({c.row.method for c in cells}) == 4
    assert {c.experiment.hash for c in cells} <= recorded


def test_every_experiment_has_a_recipe_of_its_own() -> None:
    experiments = {e for study in shipped_studies() for e in study.experiments}
    by_hash: dict[str, set[Experiment]] = {}
    for experiment in experiments:
        recipe = experiment.recipe(3)
        assert (recipe.seed, recipe.method) == (3, experiment.method)
        assert recipe.backbone.name == experiment.backbone
        by_hash.setdefault(experiment.hash, set()).add(experiment)
        if experiment.dataset == "ba2motifs":
            assert recipe.data.options["source"] == "published"
    # r = 0.7 is the recipe itself, at each of the three biases; no other recipe has two names.
    twice = [names for names in by_hash.values() if len(names) > 1]
    assert len(twice) == 3
    assert all(any(e.settings == (("r_final", 0.7),) for e in names) for names in twice)


def test_ablations_differ_from_gsat_in_what_they_are_named_for() -> None:
    study = find_study("table5")
    settings = {
        name: study.experiment("spmotif-0.5", "gsat", variant=name).recipe(0).settings
        for name in ("", "beta0", "nostoch", "nostoch-beta0")
    }
    assert {name: (s.sampling, s.info_coef) for name, s in settings.items()} == {
        "": ("concrete", 1.0), "beta0": ("concrete", 0.0),
        "nostoch": ("none", 1.0), "nostoch-beta0": ("none", 0.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "many", "data"),
    [("snapshots", "ensemble", "mutag"), ("both-ways", "both-ways-ensemble", "spmotif-0.5")],
)
def test_single_runs_are_the_members_of_two_ensembles(one: str, many: str, data: str) -> None:
    study = find_study("beyond")
    single, ensemble = (study.experiment(data, "gsat", variant=name) for name in (one, many))
    members = [m for seed in (0, 1) for m in member_recipes(ensemble.recipe(seed)).values()]
    assert members == [single.recipe(seed) for seed in range(10)]


def test_each_interpretation_changes_one_setting_and_keeps_the_papers_numbers() -> None:
    study = find_study("readings")  # its former name
    assert study.name == "interpretations"
    for cell in study.cells:
        row = cell.row
        default = study.experiment(cell.dataset, row.method, row.backbone).recipe(0).tables()
        settings, before = _flat(cell.experiment.recipe(0).tables()), _flat(default)
        changed = {k for k in settings.keys() | before if settings.get(k) != before.get(k)}
        assert len(changed) == (1 if row.variant else 0), (cell, changed)
        key = (row.method, row.backbone, cell.dataset, cell.table.metric)
        assert find_published(*key) == cell.published


def _flat(tables: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of a recipe by their full names."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        inner = _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else None
        flat |= {f"{prefix}{name}": value} if inner is None else inner
    return flat


# -- users' files ---------------------------------------------------------------------------------

OWN = """
title = "Mine"
datasets = ["houses", "ba2motifs"]
settings = {epochs = 3}
published_seeds = 4

[[table]]
metric = "explanation_auc"
rows = [
  {method = "gsat", published = ["90.0±1.5", "-"]},
  {method = "gsat", variant = "wide", backbone = "pna", published = ["", "80"]},
  {method = "erm"},
]

[variants]
wide = {title = ", wide", settings = {hidden = 96, lr = 0.01}}

[[override]]
dataset = "houses"
method = "gsat"
settings = {epochs = 5, "data.graphs" = 40}

[[override]]
variant = "wide"
settings = {layers = 3}
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_user_writes_a_study(write: Write) -> None:
    study = find_study(str(write(OWN)))
    assert (study.name, study.in_paper, study.seeds) == ("mine", False, 10)
    cells = [(c.row.method, c.dataset, c.published, c.published_seeds) for c in study.cells]
    assert cells == [
        ("gsat", "houses", (90.0, 1.5), 4),
        ("gsat", "houses", None, 4),
        ("gsat", "ba2motifs", (80.0, None), 4),
        ("erm", "houses", None, 4),
        ("erm", "ba2motifs", None, 4),
    ]
    recipes = [cell.experiment.recipe(0) for cell in study.cells]
    assert [recipe.training.epochs for recipe in recipes] == [5, 5, 3, 3, 3]
    assert [recipe.data.options["graphs"] for recipe in recipes] == [40, 40, 1000, 1000, 1000]
    assert [recipe.training.lr for recipe in recipes[1:3]] == [0.01, 0.01]
    assert [recipe.backbone.model_dump()["layers"] for recipe in recipes] == [2, 3, 3, 2, 2]
    assert [c.experiment.variant for c in study.cells] == ["plain", "wide", "wide"] + ["plain"] * 2


@pytest.mark.parametrize(
    ("old", "new", "offending"),
    [
        ('"houses", ', '"hoses", ', "hoses"),
        ('method = "erm"', 'method = "emr"', "emr"),
        ('backbone = "pna"', 'backbone = "pan"', "pan"),
        ('variant = "wide", b', 'variant = "wade", b', "wade"),
        ('"90.0±1.5"', '"about 90"', "about 90"),
        ('"90.0±1.5", ', "", "1 published numbers, but 2 data sets"),
        ("hidden = 96", "hiden = 96", "hiden"),
        ("epochs = 3", "epochs = -3", "epochs"),
        ("rows = [", "rowse = [", "rowse"),
        ('title = "Mine"', "", "title"),
        ("[[table]]", "[[table", "TOML"),
    ],
)
def test_a_mistake_is_one_line_with_the_key_or_the_value(
    old: str, new: str, offending: str, write: Write
) -> None:
    assert OWN.count(old) == 1
    with pytest.raises(GSATError, match=offending) as error:
        read_study(write(OWN.replace(old, new)))
    assert "mine.toml" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_study_needs_something_to_run(write: Write, tmp_path: Path) -> None:
    with pytest.raises(GSATError, match="table"):
        read_study(write('title = "Empty"\ndatasets = ["houses"]'))
    with pytest.raises(GSATError, match=r"none\.toml"):
        find_study(str(tmp_path / "none.toml"))
    with pytest.raises(GSATError, match=r"'table9'.*table1"):
        find_study("table9")


def test_methods_and_data_sets_come_from_files_beside_the_study(
    write: Write, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "parts.py").write_text(
        "from gsat.datasets.sources.ba2motifs import Houses\n"
        "from gsat.methods.erm import ERMMethod\n"
        "class StudyMethod(ERMMethod):\n    name, title = 'study-method', 'Mine'\n"
        "class StudyHouses(Houses):\n    name = 'study-houses'\n"
    )
    for registry, name in ((METHODS, "study-method"), (DATASETS, "study-houses")):
        request.addfinalizer(lambda registry=registry, name=name: registry.__delitem__(name))
    study = read_study(
        write(
            'title = "Mine"\ndatasets = ["parts.py:StudyHouses"]\nours = ["parts.py:StudyMethod"]\n'
            '[[table]]\nrows = [{method = "parts.py:StudyMethod"}]\n'
        )
    )
    assert (study.datasets, study.ours) == (["study-houses"], ["study-method"])
    (experiment,) = study.experiments
    assert experiment.recipe(0).method == "study-method"


def test_a_recipe_on_own_data_is_the_one_that_is_recorded(write: Write, tmp_path: Path) -> None:
    rows = [f"{'C' * (1 + i)}O,{i % 2}" for i in range(40)]
    (tmp_path / "mols.csv").write_text("\n".join(["smiles,active", *rows]))
    text = 'title = "Mine"\ndatasets = ["mols.csv"]\n[[table]]\nrows = [{method = "erm"}]\n'
    (experiment,) = read_study(write(text)).experiments
    recipe = experiment.recipe(0)
    assert Path(recipe.data.name) == tmp_path / "mols.csv"
    assert recipe.data.options["content"]  # a hash that is inferred from the file
