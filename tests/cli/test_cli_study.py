"""The example of a study, and the one in the docs, run from nothing to a table."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from cli_harness import gsat, succeed

from gsat.core.registry import METHODS
from gsat.study.study import read_study

ROOT = Path(__file__).parents[2]
SMALL = "settings = {epochs = 2, hidden = 8, layers = 1}\n"
FEW_GRAPHS = '[[override]]\ndataset = "houses"\nsettings = {"data.graphs" = 40}\n'


@pytest.mark.medium
def test_the_example_runs_with_a_method_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        "from gsat.methods.erm import ERMMethod\n"
        "class OwnERM(ERMMethod):\n    name, title = 'own-erm', 'Mine'\n"
    )
    request.addfinalizer(lambda: METHODS.__delitem__("own-erm"))
    text = (ROOT / "examples" / "study.toml").read_text(encoding="utf-8")
    text = text.replace('method = "erm"', 'method = "own.py:OwnERM"')
    small = text.replace('["ba2motifs", "houses"]', '["houses"]').replace('"98.74±0.55", ', "")
    Path("study.toml").write_text(
        small.replace("seeds = 3\n", f"seeds = 1\n{SMALL}") + FEW_GRAPHS, encoding="utf-8"
    )
    succeed("bench", "run", "study.toml", "--quiet")
    shown = gsat("bench", "show", "study.toml", "--format", "csv", "--plot", "bars.svg")
    rows = list(csv.DictReader(io.StringIO(shown.out)))
    methods = [row["method"] for row in rows]
    assert methods == ["gsat"] * 3 + ["random", "own-erm"] + ["gsat"] * 2
    assert all(0 <= float(row["mean"]) <= 100 for row in rows)
    assert "<svg" in Path("bars.svg").read_text(encoding="utf-8")


def test_the_examples_of_the_docs_are_studies(tmp_path: Path) -> None:
    study = read_study(ROOT / "examples" / "study.toml")
    assert len(study.cells) == 4 * 2 + 3 * 2
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    whole, changes = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    file = tmp_path / "study.toml"
    file.write_text(whole, encoding="utf-8")
    assert [c.row.backbone for c in read_study(file).cells] == ["gin", "gin", "pna", "pna"]
    settings, tables = changes.split("\n\n", 1)
    file.write_text(f"{settings}\n{whole}\n{tables}", encoding="utf-8")
    recipe = read_study(file).cells[0].experiment.recipe(0)
    assert (recipe.training.epochs, recipe.data.options["source"]) == (50, "published")
