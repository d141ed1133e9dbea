"""Default settings, compared on data with known explanations, each data set left out in turn.

Users' own data have no recipe and no known explanations. What explains best on the data sets with
truth here may be a good default for them. Whether such a choice holds on a set it has not seen is
measured by choosing on all the others, on validation graphs, and testing on that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field

from gsat.gsat import GSAT
from gsat.io.jsonl import append_line
from gsat.io.system import remove_tree
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool
from gsat.launch.progress import Progress
from gsat.schemas import FileModel, read_lines
from gsat.training.evaluation import evaluate_model
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.run_directory import RunDirectory, environment
from gsat.training.train import load, load_data, train

SEEDS: Final = (0, 1)
SNAPSHOTS: Final = 10

# Short enough for a minute of one core each; r reaches its final value in all of them.
DATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "ba2motifs": {"epochs": 60, "r_interval": 6, "lr": 2e-3},
    "houses": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "motif-count": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "mutag": {"test": "held-out", "epochs": 40, "r_interval": 4, "lr": 2e-3},
    "rbgv": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "spmotif-0.5": {"undirected": True, "train_per_class": 600, "epochs": 40, "r_interval": 4},
    "ibench-amide-class": {"epochs": 12, "r_interval": 2},
    "ba-shapes": {},
    "tree-cycles": {},
}

# What differs in training, and what differs afterwards, when a trained model explains.
_EDGES, _NODES = {"attention": "edge"}, {"attention": "node"}
_RECALIBRATED = {"batch_norm": "recalibrated"}
TRAINED: Final[Mapping[str, Mapping[str, Any]]] = {
    "edges, r 0.7": {**_EDGES, "r_final": 0.7},
    "edges, r 0.5": {**_EDGES, "r_final": 0.5},
    "nodes, r 0.7": {**_NODES, "r_final": 0.7},
    "nodes, r 0.5": {**_NODES, "r_final": 0.5},
    "edges, r 0.7, recalibrated": {**_EDGES, "r_final": 0.7, **_RECALIBRATED},
    "nodes, r 0.7, recalibrated": {**_NODES, "r_final": 0.7, **_RECALIBRATED},
    "nodes, r 0.5, recalibrated": {**_NODES, "r_final": 0.5, **_RECALIBRATED},
    "nodes, r 0.5, recalibrated, 3 layers": {
        **_NODES, "r_final": 0.5, **_RECALIBRATED, "layers": 3,
    },
}  # fmt: skip
EXPLAINED: Final[Mapping[str, tuple[bool, int]]] = {  # by snapshots, and how many further looks
    "best epoch": (False, 0),
    "second look": (False, 1),
    "snapshots": (True, 0),
    "snapshots, second look": (True, 1),
}


@dataclass(frozen=True)
class Candidate:
    """A way to train and to explain.

    Attributes:
        trained: A key of ``TRAINED``.
        explained: A key of ``EXPLAINED``.
    """

    trained: str
    explained: str

    def __str__(self) -> str:
        return f"{self.trained}; {self.explained}"


CANDIDATES: Final = tuple(Candidate(*pair) for pair in product(TRAINED, EXPLAINED))
BEFORE: Final = Candidate("edges, r 0.7", "best epoch")  # the default as it was, by habit


class _Scores(FileModel):
    """Explanation AUC on the two splits."""

    valid: float | None
    test: float | None


class DefaultsRecord(FileModel):
    """A line of ``results/defaults.jsonl``: one trained model, explained in every way."""

    data: str
    trained: str
    seed: int = Field(ge=0)
    metric: str
    prediction: _Scores
    explained: dict[str, _Scores]
    seconds: float = Field(ge=0)


Record = dict[str, Any]


def default_recipe(data: str, trained: str, seed: int) -> Recipe:
    """The default recipe on a data set, whatever its own is, with the settings of a candidate.

    Args:
        data: The name of the data set.
        trained: A key of ``TRAINED``.
        seed: The seed.
    """
    settings = {**DATA[data], **TRAINED[trained], "snapshots": SNAPSHOTS}
    with as_file(files("gsat.recipes") / "default-gin.toml") as shipped:
        return make_recipe(data, backbone="gin", seed=seed, file=shipped, settings=settings)


def run_study(
    folder: Path,
    record: Path,
    *,
    jobs: int = 1,
    progress: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> int:
    """Train and record all models of the study that are not recorded yet.

    Args:
        folder: Where their runs are kept.
        record: The JSON-lines file.
        jobs: How many at the same time. (default: ``1``)
        progress: Whether to show a progress bar on a terminal. (default: ``False``)
        warn: Called with a line for each model that could not be made. (default: nothing is done)

    Returns:
        How many were recorded.
    """
    known = {(line["data"], line["trained"], line["seed"]) for line in read_defaults(record)}
    left = [key for key in product(DATA, TRAINED, SEEDS) if key not in known]
    left.sort(key=lambda key: key[2])  # the first seed of all of them first
    bar, count = Progress("defaults", quiet=not progress), 0

    def on_done(name: str, outcome: Outcome) -> None:
        nonlocal count
        if outcome.status == "done":
            count += append_line(record, outcome.value, unless=lambda: False)
        else:
            warn(f"{name} is left out: {outcome.value}")
        bar.advance(name)

    function = f"{measure.__module__}.{measure.__name__}"
    named = {
        f"{data} ({trained}, seed {seed})": (data, trained, seed) for data, trained, seed in left
    }
    bar.start(len(left))
    try:
        with WorkerPool(jobs) as pool:
            work = {name: Job(function, [*key, str(folder)]) for name, key in named.items()}
            pool.run(work, on_done=on_done)
    finally:
        bar.stop()
    return count


def measure(payload: Sequence[Any]) -> Record:
    """Train one model of the study, and explain with it in every way.

    Args:
        payload: The data set, the key of ``TRAINED``, the seed and the folder of all runs.

    Returns:
        What is recorded of it.
    """
    data, trained, seed, folder = payload
    recipe = default_recipe(data, trained, seed)
    loaded = load_data(recipe)
    plain = "".join(letter if letter.isalnum() else "-" for letter in trained)
    path = Path(folder) / f"{data}-{plain}-seed-{seed}"
    if not (path / "result.json").is_file():
        remove_tree(path)  # of a run that was cut off
        train(recipe, path, data=loaded, checkpoint_seconds=1e9)
    model = load(path)
    assert isinstance(model, GSAT)
    splits = {"valid": loaded.valid, "test": loaded.test}
    explained: dict[str, dict[str, float | None]] = {}
    prediction: dict[str, float | None] = {}
    for name, (snapshots, looks) in sorted(EXPLAINED.items(), key=lambda way: -way[1][0]):
        if not snapshots:
            model.take_snapshots([])
        found = {
            split: evaluate_model(model.refined(looks), store) for split, store in splits.items()
        }
        explained[name] = {split: values["explanation_auc"] for split, values in found.items()}
        # The same for all: the best epoch predicts, however it is explained.
        prediction = {split: values[loaded.task.metric] for split, values in found.items()}
    where = environment()
    return {
        "data": data,
        "trained": trained,
        "seed": seed,
        "metric": loaded.task.metric,
        "prediction": prediction,
        "explained": explained,
        "seconds": RunDirectory(path).result["seconds"],
        "recipe": recipe.tables(),
        "versions": where["versions"],
        "cpu": where["cpu"],
    }


def read_defaults(path: Path) -> list[Record]:
    """Read the records of the study.

    Args:
        path: The JSON-lines file; it need not exist.

    Returns:
        One table per model, in their order.

    Raises:
        GSATError: If a line is damaged.
    """
    return read_lines(path, DefaultsRecord)


def mean_auc(
    records: Iterable[Record], candidate: Candidate, data: str, split: str
) -> float | None:
    """The mean over seeds of a candidate's explanation AUC on a data set.

    Args:
        records: The recorded models.
        candidate: Which candidate.
        data: The data set.
        split: ``"valid"`` or ``"test"``.

    Returns:
        The mean, or None if it was not measured.
    """
    found = [
        record["explained"][candidate.explained][split]
        for record in records
        if record["data"] == data and record["trained"] == candidate.trained
    ]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def mean_prediction(records: Iterable[Record], candidate: Candidate, data: str) -> float | None:
    """The mean over seeds of a candidate's prediction metric on the test set of a data set."""
    found = [
        record["prediction"]["test"]
        for record in records
        if record["data"] == data and record["trained"] == candidate.trained
    ]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def complete_sets(records: Sequence[Record]) -> list[str]:
    """The data sets on which every candidate was measured, in the order of ``DATA``."""
    return [
        data
        for data in DATA
        if all(mean_auc(records, candidate, data, "valid") is not None for candidate in CANDIDATES)
    ]


def choose(records: Sequence[Record], data: Sequence[str]) -> Candidate:
    """Choose the candidate with the best mean explanation AUC over data sets, on validation graphs.

    Args:
        records: The recorded models.
        data: The data sets; each counts the same.

    Returns:
        The best; of equals, the first.
    """

    def mean(candidate: Candidate) -> float:
        return float(np.mean([mean_auc(records, candidate, name, "valid") for name in data]))

    return max(CANDIDATES, key=mean)
