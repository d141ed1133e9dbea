"""Settings that decide how much memory and time a training takes have upper limits."""

from __future__ import annotations

import pytest

from gsat.core.errors import GSATError
from gsat.training.recipe import make_recipe


@pytest.mark.parametrize(
    ("data", "parts", "setting"),
    [
        ("ba2motifs", {}, "data.graphs=4000000"),
        ("spmotif-0.5", {}, "data.train_per_class=4000000"),
        ("ba2motifs", {}, "samples=1000000000"),
        ("ba2motifs", {}, "refine=1000000000"),
        ("ba2motifs", {}, "epochs=1000000000"),
        ("ba2motifs", {}, "snapshots=1000000000"),
        ("ba2motifs", {}, "hidden=1000000000"),
        ("ba2motifs", {"backbone": "pna"}, "layers=1000000000"),
        ("ba2motifs", {"method": "ib-subgraph"}, "inner_steps=1000000000"),
        ("ba2motifs", {"method": "gmt"}, "samples=1000000000"),
    ],
)
def test_expensive_settings_are_refused(data: str, parts: dict[str, str], setting: str) -> None:
    with pytest.raises(GSATError, match=setting.split("=")[1]):
        make_recipe(data, settings=[setting], **parts)
