"""Default settings, compared on data with known explanations, each data set left out in turn.

Users' own data have no recipe and no known explanations. What explains best on the data sets with
truth here may be a good default for them. Whether such a choice holds on a set it has not seen is
measured by choosing on all the others, on validation graphs, and testing on that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field

from gsat.io.jsonl import append_line
from gsat.io.system import remove_tree
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool
from gsat.launch.progress import Progress
from gsat.models.ensemble import Ensemble
from gsat.schemas import FileModel, read_lines
from gsat.training.evaluation import evaluate_model
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.run_directory import RunDirectory, environment
from gsat.training.train import load, load_data, train

SEEDS: Final = (0, 1)  # on one split, so that the models are also the members of an ensemble
SNAPSHOTS: Final = 10
# A choice may cost this much of the mean prediction metric on validation graphs, and no more.
TOLERANCE: Final = 0.01

# The default as it was, by habit, whatever a data set's own recipe says.
_BEFORE: Final[Mapping[str, Any]] = {
    "hidden": 64, "layers": 2, "dropout": 0.3,
    "epochs": 100, "batch_size": 128, "lr": 1e-3, "weight_decay": 0.0,
    "attention": "edge", "info_coef": 1.0, "r_final": 0.7, "r_interval": 10,
}  # fmt: skip

# Short enough for a minute of one core each; r reaches its final value in all of them.
DATA: Final[Mapping[str, Mapping[str, Any]]] = {
    "ba2motifs": {"epochs": 60, "r_interval": 6, "lr": 2e-3},
    "houses": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "motif-count": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "mutag": {"test": "held-out", "epochs": 40, "r_interval": 4, "lr": 2e-3},
    "rbgv": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
    "spmotif-0.5": {"undirected": True, "train_per_class": 600, "epochs": 40, "r_interval": 4},
    "ba-shapes": {"epochs": 200, "lr": 3e-3},  # of one graph, an epoch is one step
    "tree-cycles": {"epochs": 200, "lr": 3e-3},
}

# What differs in training, and what differs afterwards, when a trained model explains.
_EDGES, _NODES = {"attention": "edge"}, {"attention": "node"}
_RECALIBRATED = {"batch_norm": "recalibrated"}
TRAINED: Final[Mapping[str, Mapping[str, Any]]] = {
    "edges, r 0.7": {**_EDGES, "r_final": 0.7},
    "edges, r 0.5": {**_EDGES, "r_final": 0.5},
    "nodes, r 0.7": {**_NODES, "r_final": 0.7},
    "nodes, r 0.5": {**_NODES, "r_final": 0.5},
    "edges, r 0.7, coefficient 0.5": {**_EDGES, "r_final": 0.7, "info_coef": 0.5},
    "nodes, r 0.7, coefficient 0.5": {**_NODES, "r_final": 0.7, "info_coef": 0.5},
    "edges, r 0.7, recalibrated": {**_EDGES, "r_final": 0.7, **_RECALIBRATED},
    "nodes, r 0.7, recalibrated": {**_NODES, "r_final": 0.7, **_RECALIBRATED},
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
BEFORE: Final = Candidate("edges, r 0.7", "best epoch")  # as ``_BEFORE`` has it


class _Scores(FileModel):
    """Explanation AUC on the two splits."""

    valid: float | None
    test: float | None


class _Measured(FileModel):
    """A model, or an ensemble: its prediction metric, and its explanation AUC by way to explain."""

    prediction: _Scores
    explained: dict[str, _Scores]


class DefaultsRecord(FileModel):
    """A line of ``results/defaults.jsonl``: one way to train on one data set."""

    data: str
    trained: str
    seeds: list[int]
    metric: str
    models: list[_Measured] = Field(min_length=1)  # by seed
    ensemble: _Measured  # of these models
    seconds: float = Field(ge=0)


Record = dict[str, Any]


def default_recipe(data: str, trained: str, seed: int) -> Recipe:
    """The default as it was on a data set, with the settings of a candidate.

    Args:
        data: The name of the data set.
        trained: A key of ``TRAINED``.
        seed: The seed.
    """
    own = {"snapshots": SNAPSHOTS, "split_seed": 0}
    settings = {**_BEFORE, **DATA[data], **TRAINED[trained], **own}
    return make_recipe(data, backbone="gin", seed=seed, settings=settings)


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
    known = {(line["data"], line["trained"]) for line in read_defaults(record)}
    left = [pair for pair in product(DATA, TRAINED) if pair not in known]
    bar, count = Progress("defaults", quiet=not progress), 0

    def on_done(name: str, outcome: Outcome) -> None:
        nonlocal count
        if outcome.status == "done":
            count += append_line(record, outcome.value, unless=lambda: False)
        else:
            warn(f"{name} is left out: {outcome.value}")
        bar.advance(name)

    function = f"{measure.__module__}.{measure.__name__}"
    bar.start(len(left))
    try:
        with WorkerPool(jobs) as pool:
            work = {
                f"{data} ({trained})": Job(function, [data, trained, str(folder)])
                for data, trained in left
            }
            pool.run(work, on_done=on_done)
    finally:
        bar.stop()
    return count


def measure(payload: Sequence[Any]) -> Record:
    """Train the models of one way to train on one data set, and explain with them in every way.

    Args:
        payload: The data set, the key of ``TRAINED`` and the folder of all runs.

    Returns:
        What is recorded.
    """
    data, trained, folder = payload
    recipe = default_recipe(data, trained, SEEDS[0])
    loaded = load_data(recipe)
    plain = "".join(letter if letter.isalnum() else "-" for letter in trained)
    paths = [Path(folder) / f"{data}-{plain}-seed-{seed}" for seed in SEEDS]
    for seed, path in zip(SEEDS, paths, strict=True):
        if not (path / "result.json").is_file():
            remove_tree(path)  # of a run that was cut off
            own = default_recipe(data, trained, seed)
            train(own, path, data=loaded, checkpoint_seconds=1e9)
    models = [load(path) for path in paths]
    splits = {"valid": loaded.valid, "test": loaded.test}
    measured: list[Record] = [{"explained": {}} for _ in (*models, "ensemble")]
    for name, (snapshots, looks) in sorted(EXPLAINED.items(), key=lambda way: -way[1][0]):
        if not snapshots:
            for model in models:
                model.take_snapshots([])
        for line, one in zip(measured, [*models, Ensemble(models)], strict=True):
            view = one.refined(looks)
            found = {split: evaluate_model(view, store) for split, store in splits.items()}
            line["explained"][name] = {k: values["explanation_auc"] for k, values in found.items()}
            # The same for all: the best epoch predicts, however it is explained.
            line["prediction"] = {k: values[loaded.task.metric] for k, values in found.items()}
    where = environment()
    return {
        "data": data,
        "trained": trained,
        "seeds": list(SEEDS),
        "metric": loaded.task.metric,
        "models": measured[:-1],
        "ensemble": measured[-1],
        "seconds": round(sum(RunDirectory(path).result["seconds"] for path in paths), 3),
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
    records: Iterable[Record], candidate: Candidate, data: str, split: str, ensemble: bool = False
) -> float | None:
    """The explanation AUC of a candidate on a data set.

    Args:
        records: What was recorded.
        candidate: Which candidate.
        data: The data set.
        split: ``"valid"`` or ``"test"``.
        ensemble: Of the ensemble of its models, not their mean. (default: ``False``)

    Returns:
        The mean over seeds, or None if it was not measured.
    """
    measured = _measured(records, candidate, data, ensemble)
    return _mean(one["explained"][candidate.explained][split] for one in measured)


def mean_prediction(
    records: Iterable[Record], candidate: Candidate, data: str, split: str
) -> float | None:
    """The mean over seeds of a candidate's prediction metric on a data set."""
    measured = _measured(records, candidate, data, ensemble=False)
    return _mean(one["prediction"][split] for one in measured)


def _measured(
    records: Iterable[Record], candidate: Candidate, data: str, ensemble: bool
) -> list[Record]:
    for record in records:
        if (record["data"], record["trained"]) == (data, candidate.trained):
            return [record["ensemble"]] if ensemble else list(record["models"])
    return []


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def complete_sets(records: Sequence[Record]) -> list[str]:
    """The data sets on which every candidate was measured, in the order of ``DATA``."""
    return [
        data
        for data in DATA
        if all(mean_auc(records, candidate, data, "valid") is not None for candidate in CANDIDATES)
    ]


def choose(
    records: Sequence[Record], data: Sequence[str], tolerance: float = TOLERANCE
) -> Candidate:
    """Choose the candidate that explains best over data sets, on validation graphs.

    Args:
        records: What was recorded.
        data: The data sets; each counts the same.
        tolerance: By how much a candidate may predict worse than the default as it was, in the
            mean over the data sets. (default: ``TOLERANCE``)

    Returns:
        The one with the best mean explanation AUC; of equals, the first.
    """

    def explains(candidate: Candidate) -> float:
        return float(np.mean([mean_auc(records, candidate, name, "valid") for name in data]))

    def predicts(candidate: Candidate) -> float:
        return float(np.mean([mean_prediction(records, candidate, name, "valid") for name in data]))

    least = predicts(BEFORE) - tolerance
    return max((each for each in CANDIDATES if predicts(each) >= least), key=explains)
