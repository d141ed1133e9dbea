"""Comparison of default settings on data with known explanations, leaving out each set in turn.

Users' own data have no recipe and no known explanations. Settings that explain best on data sets
with known explanations may be good defaults for them. The study measures whether such a choice
holds on unseen data: it chooses on all data sets but one, by validation graphs, and tests on the
graphs of the remaining one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from pydantic import Field
from torch import Tensor

from gsat.core.files import read_lines
from gsat.core.parsing import FileModel
from gsat.core.system import remove_tree
from gsat.core.writing import append_line
from gsat.gsat import GSAT
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool
from gsat.launch.progress import Progress
from gsat.models.ensemble import Ensemble
from gsat.training.evaluation import evaluate
from gsat.training.loop import TrainOptions
from gsat.training.recipe import Recipe, load_data, make_recipe
from gsat.training.run import load
from gsat.training.run_directory import RunDirectory, environment
from gsat.training.train import train

SEEDS: Final = (0, 1, 2)  # on one split, so that the models are also the members of an ensemble
SNAPSHOTS: Final = 10
# A choice may cost this much of the mean prediction metric on validation graphs, and no more.
TOLERANCE: Final = 0.01

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """Settings of training, and a way to explain with the trained model."""

    trained: str  # a key of Group.trained
    explained: str  # a key of Group.explained

    def __str__(self) -> str:
        return f"{self.trained}; {self.explained}"


@dataclass(frozen=True)
class Explaining:
    """A way to explain with a trained model."""

    snapshots: str = "none"  # "none", the "last" ones, or ones "spread" over all
    count: int = SNAPSHOTS
    passes: int = 0  # refinement passes
    context: float = 0.0  # weight of the scores around a node or edge


@dataclass(frozen=True)
class Group:
    """Data sets on which the same candidates are compared."""

    title: str
    backbone: str
    metric: str  # of explanations
    common: Settings  # of all runs
    data: Mapping[str, Settings]  # may have the registered ``name`` of a data set
    trained: Mapping[str, Settings]  # the most important first
    explained: Mapping[str, Explaining]
    before: Candidate  # the former default
    snapshots: int  # kept by each run

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All pairs of settings and ways to explain."""
        return tuple(Candidate(t, e) for t in self.trained for e in self.explained)


# Small enough for a minute of one core each; r reaches its final value in all of them.
_EDGES, _NODES = {"attention": "edge"}, {"attention": "node"}
_RECALIBRATED = {"batch_norm": "recalibrated"}
_ATTENDED, _ROW = {"readout": "attended"}, {"extractor_norm": "row"}
_HARD = {"sampling": "straight-through", "info_on": "p"}
# Explicit, so that a change of the shipped recipes does not change the study.
_PUBLISHED = {
    "readout": "all", "extractor_norm": "graph", "sampling": "concrete", "info_on": "sample",
    "selection": None, "snapshot_epochs": "last",
}  # fmt: skip

GRAPHS: Final = Group(
    title="Graphs, GIN",
    backbone="gin",
    metric="explanation_auc",
    common={
        **_PUBLISHED,
        "hidden": 64, "layers": 2, "dropout": 0.3,
        "epochs": 100, "batch_size": 128, "lr": 1e-3, "weight_decay": 0.0,
        "attention": "edge", "info_coef": 1.0, "r_final": 0.7, "r_interval": 10,
    },
    data={
        "ba2motifs": {"epochs": 60, "r_interval": 6, "lr": 2e-3},
        "houses": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
        "motif-count": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
        "mutag": {"test": "held-out", "epochs": 40, "r_interval": 4, "lr": 2e-3},
        "rbgv": {"epochs": 50, "r_interval": 5, "lr": 2e-3},
        "spmotif-0.5": {"undirected": True, "train_per_class": 600, "epochs": 40, "r_interval": 4},
        "ba-shapes": {"epochs": 200, "lr": 3e-3},  # of one graph, an epoch is one step
        "tree-cycles": {"epochs": 200, "lr": 3e-3},
    },
    trained={
        "edges, r 0.7": {**_EDGES, "r_final": 0.7},
        "edges, r 0.7, attended": {**_EDGES, "r_final": 0.7, **_ATTENDED},
        "edges, r 0.7, attended, row norm": {**_EDGES, "r_final": 0.7, **_ATTENDED, **_ROW},
        "nodes, r 0.7, attended": {**_NODES, "r_final": 0.7, **_ATTENDED},
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
    },
    explained={
        "best epoch": Explaining(),
        "refinement pass": Explaining(passes=1),
        "snapshots": Explaining("last"),
        "snapshots, refinement pass": Explaining("last", passes=1),
    },
    before=Candidate("edges, r 0.7", "best epoch"),
    snapshots=SNAPSHOTS,
)  # fmt: skip

# Rules on the molecules of the set 'benzene'.
RULES: Final[Mapping[str, Settings]] = {
    "nitrile": {"smarts": ["C#N"]},
    "sulfonamide": {"smarts": ["S(=O)(=O)[NX3]"]},
    "thiophene": {"smarts": ["c1ccsc1"]},
    "morpholine": {"smarts": ["C1COCCN1"]},
    "ester": {"smarts": ["[CX3](=O)[OX2][#6]"]},
    "trifluoromethyl": {"smarts": ["C(F)(F)F"]},
    "aryl chloride and amide": {"smarts": ["cCl", "C(=O)[NX3]"], "rule": "all"},
    "ether and pyridine": {"smarts": ["[#6][OD2][#6]", "n1ccccc1"], "rule": "all"},
    "fluorine and carbonyl": {"smarts": ["[FX1]", "[CX3]=O"], "rule": "all"},
    "nitro or nitrile": {"smarts": ["[N+](=O)[O-]", "C#N"]},
    "furan or thiophene": {"smarts": ["c1ccoc1", "c1ccsc1"]},
    "number of carbonyls": {"smarts": ["[CX3]=O"], "rule": "count"},
    "number of halogens": {"smarts": ["[F,Cl,Br]"], "rule": "count"},
    "halogens minus NH": {
        "smarts": ["[F,Cl,Br]", "[NX3;H1,H2]"], "rule": "sum", "weights": [1.0, -1.0],
    },
}  # fmt: skip

_PLANTED: Final = {"name": "planted", "epochs": 40}
_MOLECULES: Final[Mapping[str, Settings]] = {
    **{rule: {**_PLANTED, **options} for rule, options in RULES.items()},
    # Larger sets: fewer epochs, about as many steps.
    "fluoride-carbonyl": {"epochs": 20, "r_interval": 2},
    "alkane-carbonyl": {"epochs": 16, "r_interval": 1},
    "benzene": {"epochs": 14, "r_interval": 1},
    **{
        f"ibench-{label}": {"epochs": 14, "r_interval": 1}
        for label in ("amide-class", "amide", "n", "n-minus-o", "n-plus-o", "pharmacophore")
    },
}
_NEW: Final = {**_NODES, "r_final": 0.7, **_ATTENDED, **_ROW}
# Hard samples remove atoms, and a low prior removes most of them: a prediction that stays correct
# needs the evidence. With this step, r reaches it in the first half of the training.
_LOW_PRIOR: Final = {**_NEW, **_HARD, "r_final": 0.3, "r_step": 0.15}
_EXPLAINED: Final = {
    "best epoch": Explaining(),
    "best epoch, context 0.3": Explaining(context=0.3),
    "best epoch, context 1": Explaining(context=1.0),
    "5 snapshots": Explaining("last", 5),
    "5 snapshots, context 0.3": Explaining("last", 5, context=0.3),
    "5 snapshots, context 1": Explaining("last", 5, context=1.0),
    "10 snapshots": Explaining("last"),
    "10 snapshots, context 0.3": Explaining("last", context=0.3),
    "10 spread snapshots": Explaining("spread"),
    "10 spread snapshots, context 0.3": Explaining("spread", context=0.3),
}
MOLECULES: Final = Group(
    title="Molecules, D-MPNN",
    backbone="dmpnn",
    metric="atom_auc",
    common={
        **_PUBLISHED,
        "hidden": 128, "layers": 3, "dropout": 0.0, "batch_size": 32, "lr": 1e-3,
        "weight_decay": 0.0, "attention": "node", "info_coef": 1.0, "r_final": 0.5, "r_interval": 5,
    },
    data=_MOLECULES,
    trained={
        "nodes, r 0.5": {},
        "nodes, r 0.7, attended, row norm": _NEW,
        "nodes, r 0.3, attended, row norm, hard samples": _LOW_PRIOR,
        "nodes, r 0.7": {"r_final": 0.7},
        "nodes, r 0.7, attended": {"r_final": 0.7, **_ATTENDED},
        "nodes, r 0.7, row norm": {"r_final": 0.7, **_ROW},
        "nodes, r 0.5, attended, row norm": {**_NEW, "r_final": 0.5},
        "nodes, r 0.7, attended, row norm, hard samples": {**_NEW, **_HARD},
        "nodes, r 0.7, attended, no norm": {**_NEW, "extractor_norm": "none"},
        "nodes, r 0.7, attended, row norm, coefficient 0.3": {**_NEW, "info_coef": 0.3},
        "edges, r 0.7, attended, row norm": {**_NEW, **_EDGES},
    },
    explained=_EXPLAINED,
    before=Candidate("nodes, r 0.5", "best epoch"),
    snapshots=3 * SNAPSHOTS,
)  # fmt: skip
MOLECULES_GIN: Final = Group(
    title="Molecules, GIN",
    backbone="gin",
    metric="atom_auc",
    common={
        **_PUBLISHED,
        "hidden": 64, "layers": 3, "dropout": 0.1, "batch_size": 32, "lr": 1e-3,
        "weight_decay": 0.0, "attention": "node", "info_coef": 0.1, "r_final": 0.7,
        "r_interval": 5,
    },
    data=_MOLECULES,
    trained={
        "nodes, r 0.7, coefficient 0.1": {},
        "nodes, r 0.7, attended, row norm": {**_NEW, "info_coef": 1.0},
        "nodes, r 0.7, attended, row norm, coefficient 0.1": _NEW,
        "nodes, r 0.7, attended, coefficient 0.1": _ATTENDED,
        "nodes, r 0.7, row norm, coefficient 0.1": _ROW,
    },
    explained=_EXPLAINED,
    before=Candidate("nodes, r 0.7, coefficient 0.1", "best epoch"),
    snapshots=3 * SNAPSHOTS,
)  # fmt: skip
GROUPS: Final[Mapping[str, Group]] = {
    "graphs": GRAPHS,
    "molecules": MOLECULES,
    "molecules-gin": MOLECULES_GIN,
}


class _Scores(FileModel):
    """A metric on the two splits."""

    valid: float | None
    test: float | None


class _Measured(FileModel):
    """A model or an ensemble: its prediction metric, and its explanation metric by explanation."""

    prediction: _Scores
    explained: dict[str, _Scores]
    over_epochs: list[float] | None = None  # mean and deviation of the validation metric


class DefaultsRecord(FileModel):
    """A line of ``results/defaults.jsonl``: the models of one candidate on one data set."""

    group: str = "graphs"
    data: str
    trained: str
    seeds: list[int]
    metric: str
    models: list[_Measured] = Field(min_length=1)  # by seed
    ensemble: _Measured  # of these models
    seconds: float = Field(ge=0)
    cpu_seconds: float | None = Field(None, ge=0)


Record = dict[str, Any]


def default_recipe(group: Group, data: str, trained: str, seed: int) -> Recipe:
    """Make the recipe of a run: the settings of the group, the data set and the candidate."""
    of_data = dict(group.data[data])
    name = of_data.pop("name", data)
    own = {"snapshots": group.snapshots, "split_seed": 0}
    settings = {**group.common, **of_data, **group.trained[trained], **own}
    return make_recipe(
        name, backbone=group.backbone, seed=seed, settings=settings, look_for_files=False
    )


def run_study(
    folder: Path,
    record: Path,
    *,
    groups: Sequence[str] = (),
    trained: Sequence[str] = (),
    data: Sequence[str] = (),
    jobs: int = 1,
    progress: bool = False,
    warn: Callable[[str], None] = lambda _: None,
) -> int:
    """Train and record all models of the study that are not recorded yet."""
    known = {(line["group"], line["data"], line["trained"]) for line in read_defaults(record)}
    left = [
        (group, name, way)
        for group in (groups or GROUPS)
        for way in GROUPS[group].trained
        for name in GROUPS[group].data
        if (not trained or way in trained)
        and (not data or name in data)
        and (group, name, way) not in known
    ]
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
                f"{group}: {name} ({way})": Job(function, [group, name, way, str(folder)])
                for group, name, way in left
            }
            pool.run(work, on_done=on_done)
    finally:
        bar.stop()
    return count


def run_folder(folder: Path, group: str, data: str, trained: str, seed: int) -> Path:
    """Return the folder of a run of the study."""
    name = "".join(c if c.isalnum() else "-" for c in f"{group}-{data}-{trained}")
    return folder / f"{name}-seed-{seed}"


def measure(payload: Sequence[Any]) -> Record:
    """Train the models of one candidate on one data set, and explain with them in every way."""
    group_name, data, trained, folder = payload
    group, began = GROUPS[group_name], time.process_time()
    loaded = load_data(default_recipe(group, data, trained, SEEDS[0]))
    paths = [run_folder(Path(folder), group_name, data, trained, seed) for seed in SEEDS]
    for seed, path in zip(SEEDS, paths, strict=True):
        if not (path / "result.json").is_file():
            remove_tree(path)  # of a run that was cut off
            own = default_recipe(group, data, trained, seed)
            train(own, path, TrainOptions(checkpoint_seconds=1e9), data=loaded)
    models = [cast("GSAT", load(path)) for path in paths]
    kept = [_snapshots(model) for model in models]
    splits = {"valid": loaded.valid, "test": loaded.test}
    measured: list[Record] = [{"explained": {}} for _ in (*models, "ensemble")]
    for name, way in group.explained.items():
        for model, snapshots in zip(models, kept, strict=True):
            model.take_snapshots(_some(snapshots, way))
            model.set_options(context=way.context or None)
        for line, one in zip(measured, [*models, Ensemble(models)], strict=True):
            view = one.refined(way.passes)
            found = {split: evaluate(view, store) for split, store in splits.items()}
            line["explained"][name] = {k: values[group.metric] for k, values in found.items()}
            # The same for all: the best epoch predicts, however it is explained.
            line["prediction"] = {k: values[loaded.task.metric] for k, values in found.items()}
    for line, path in zip(measured, paths, strict=False):
        line["over_epochs"] = _over_epochs(RunDirectory(path).read_log(), group.metric)
    where = environment()
    return {
        "group": group_name,
        "data": data,
        "trained": trained,
        "seeds": list(SEEDS),
        "metric": loaded.task.metric,
        "models": measured[:-1],
        "ensemble": measured[-1],
        "seconds": round(sum(RunDirectory(path).result["seconds"] for path in paths), 3),
        "cpu_seconds": round(time.process_time() - began, 1),
        "recipe": default_recipe(group, data, trained, SEEDS[0]).tables(),
        "versions": where["versions"],
        "cpu": where["cpu"],
    }


def _snapshots(model: GSAT) -> list[Mapping[str, Tensor]]:
    """The weights of a model's snapshots, the oldest first."""
    return [part.state_dict() for part in model.snapshots or ()]


def _some(snapshots: list[Mapping[str, Tensor]], way: Explaining) -> list[Mapping[str, Tensor]]:
    """The snapshots of a way to explain, the oldest first."""
    if way.snapshots == "none":
        return []
    every = max(1, len(snapshots) // way.count) if way.snapshots == "spread" else 1
    return snapshots[::-1][::every][: way.count][::-1]


def _over_epochs(log: Iterable[Mapping[str, Any]], metric: str) -> list[float] | None:
    """Mean and deviation of a validation metric over the second half of the epochs."""
    values = [line["valid"].get(metric) for line in log]
    known = [value for value in values[len(values) // 2 :] if value is not None]
    return [float(np.mean(known)), float(np.std(known))] if known else None


def read_defaults(path: Path) -> list[Record]:
    """Read the records of the study, also those with the former names of explanations."""
    records = [{"group": "graphs", **line} for line in read_lines(path, DefaultsRecord)]
    for record in records:
        for measured in (*record["models"], record["ensemble"]):
            measured["explained"] = {
                name.replace("second look", "refinement pass"): scores
                for name, scores in measured["explained"].items()
            }
    return records


def mean_auc(
    records: Iterable[Record], candidate: Candidate, data: str, split: str, ensemble: bool = False
) -> float | None:
    """Return the explanation metric of a candidate on a data set."""
    return _mean(seed_values(records, candidate, data, split, ensemble))


def seed_values(
    records: Iterable[Record], candidate: Candidate, data: str, split: str, ensemble: bool = False
) -> list[float]:
    """Return the explanation metric of a candidate on a data set for each seed."""
    measured = _measured(records, candidate, data, ensemble)
    found = [one["explained"].get(candidate.explained, {}).get(split) for one in measured]
    return [value for value in found if value is not None]


def mean_prediction(
    records: Iterable[Record], candidate: Candidate, data: str, split: str
) -> float | None:
    """Return the mean over seeds of a candidate's prediction metric on a data set."""
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


def of_group(records: Iterable[Record], group: str) -> list[Record]:
    """Return the records of a group."""
    return [record for record in records if record["group"] == group]


def measured_sets(records: Sequence[Record], group: Group) -> list[str]:
    """Return the data sets on which the former default was measured, in the group's order."""
    return [
        name for name in group.data if mean_auc(records, group.before, name, "valid") is not None
    ]


def complete_candidates(
    records: Sequence[Record], group: Group, data: Sequence[str]
) -> list[Candidate]:
    """Return the candidates that were measured on every data set."""
    return [
        candidate
        for candidate in group.candidates
        if all(mean_auc(records, candidate, name, "valid") is not None for name in data)
    ]


def choose(
    records: Sequence[Record],
    group: Group,
    data: Sequence[str],
    tolerance: float = TOLERANCE,
    among: Sequence[Candidate] | None = None,
) -> Candidate:
    """Choose the candidate that explains best over data sets, on validation graphs."""

    def explains(candidate: Candidate) -> float:
        return float(np.mean([mean_auc(records, candidate, name, "valid") for name in data]))

    def predicts(candidate: Candidate) -> float:
        return float(np.mean([mean_prediction(records, candidate, name, "valid") for name in data]))

    candidates = complete_candidates(records, group, data) if among is None else among
    least = predicts(group.before) - tolerance
    return max((each for each in candidates if predicts(each) >= least), key=explains)
