"""A run: its model, its data, its predictions and explanations."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gsat.audit.audit import audit_model, chosen_graphs
from gsat.audit.measures import Measures
from gsat.audit.perturbations import unit_of
from gsat.audit.report import AuditReport
from gsat.audit.settings import AuditSettings
from gsat.audit.stability import common_unit, score_graphs, stability
from gsat.audit.verdict import model_notes
from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.settings import validated
from gsat.datasets.labels import for_task
from gsat.datasets.load import Dataset, add_positions, load_dataset
from gsat.datasets.own_data import read
from gsat.datasets.registry import full_name, is_path
from gsat.datasets.splits import NAMES as SPLIT_NAMES
from gsat.explain.molecules import (
    MoleculeReport,
    ReportInfo,
    explain_molecules,
    find_target,
    output_names,
)
from gsat.explain.patterns import PatternReport, find_patterns
from gsat.explain.scores_file import write_scores_npz
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_graphs
from gsat.gsat import GSAT
from gsat.metric_names import shown_metrics
from gsat.models import InterpretableModel
from gsat.models.ensemble import MEMBERS, Ensemble, load_any
from gsat.models.loading import fill, load_model
from gsat.models.saved import model_folder, read_model
from gsat.molecules.fingerprints import NearestMolecules
from gsat.molecules.smiles import SMILES
from gsat.molecules.table import is_table
from gsat.training.evaluation import evaluate
from gsat.training.list_runs import check_run
from gsat.training.members import member_folders
from gsat.training.molecules import (
    PredictedTable,
    predict_table,
    read_like_training,
    read_smiles,
    readable_names,
    with_labels,
)
from gsat.training.prediction_table import PredictionTable
from gsat.training.recipe import Recipe, load_data
from gsat.training.run_audit import (
    AUDIT,
    LEAST,
    PASSES,
    SHARE,
    affordable,
    audit_line,
    compare_with_untrained,
    is_faithful,
    majority,
    mean_stability,
    read_audit,
    write_audit,
)
from gsat.training.run_directory import RunDirectory, environment

if TYPE_CHECKING:
    from gsat.explanation import Explanation

Data = str | Path | Dataset | GraphStore


class Run:
    """A run: its recipe and result, and predictions and explanations by its model.

    The model and the data are loaded when first used. :func:`gsat.open_run`, :func:`gsat.train`,
    :func:`gsat.fit` and :func:`gsat.resume` make runs. In all methods, ``data`` and ``split`` are
    those of :meth:`graphs`; by default, the run's own test graphs are used.

    Args:
        path: The run directory; None if nothing was written. (default: ``None``)
        model: The trained model. (default: loaded from the run directory)
        recipe: How it was trained. (default: read from the run directory)
        result: What ``result.json`` holds. (default: read from the run directory)
        data: The data it was trained on. (default: loaded by the recipe)
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        model: InterpretableModel | None = None,
        recipe: Recipe | None = None,
        result: dict[str, Any] | None = None,
        data: Dataset | None = None,
    ) -> None:
        self.path = path
        self._model, self._recipe, self._result, self._data = model, recipe, result, data
        self._audit: dict[str, Any] | None = None
        self._audit_read: tuple[int, int, int] | None = None  # the file that it was read from

    # -- contents ------------------------------------------------------------------------------

    @property
    def model(self) -> InterpretableModel:
        """The model of the reported epoch, ready to predict and explain."""
        if self._model is None:
            self._model = load(self._folder.path)
        return self._model

    @property
    def recipe(self) -> Recipe:
        """Every setting it was trained with."""
        if self._recipe is None:
            self._recipe = self._folder.recipe
        return self._recipe

    @property
    def result(self) -> dict[str, Any]:
        """What ``result.json`` holds; an error if the run is not finished."""
        if self._result is None:
            self._result = self._folder.result
        return self._result

    @property
    def dataset(self) -> Dataset:
        """The data it was trained on, split as for the training."""
        if self._data is None:
            self._data = load_data(self.recipe)
        return self._data

    @property
    def loaded_dataset(self) -> Dataset | None:
        """The data it was trained on; None unless it is loaded."""
        return self._data

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry per epoch so far, as in ``metrics.jsonl``; empty if nothing was written."""
        if self.path is None or not (self.path / "metrics.jsonl").is_file():
            return []
        return self._folder.read_log()

    @property
    def finished(self) -> bool:
        """Whether training has ended."""
        return self._result is not None or self._folder.result_path.is_file()

    @property
    def test(self) -> dict[str, Any]:
        """Test metrics of the reported epoch."""
        return self.result["test"]

    @property
    def valid(self) -> dict[str, Any]:
        """Validation metrics of the reported epoch."""
        return self.result["valid"]

    def record(self) -> dict[str, Any]:
        """Return one line for ``results/runs.jsonl``: the result, the recipe, the environment."""
        started = environment() if self.path is None else self._folder.environment
        return {**self.result, "recipe": self.recipe.tables(), **started}

    def __repr__(self) -> str:
        lines = [f"Run of {self.recipe.method} on {self.recipe.data.label}"]
        lines.append(f"backbone {self.recipe.backbone.name}, seed {self.recipe.seed}")
        if self.finished:
            lines.append(f"test {_metrics_line(self.test, 4)}")
        else:
            lines.append(f"not finished, {len(self.log)} epochs so far")
        return "\n  ".join([*lines, str(self.path or "not saved")])

    def refined(self, passes: int) -> Run:
        """Return the same run with a model that refines its explanations; see :meth:`GSAT.refined`.

        Raises:
            GSATError: If the model can't refine explanations.
        """
        view = copy.copy(self)
        view._model = self.model.refined(passes)
        return view

    # -- graphs ---------------------------------------------------------------------------------

    def graphs(self, data: Data | None = None, split: str = "test") -> GraphStore:
        """Return graphs that the run's model can be applied to.

        Args:
            data: The name of a data set, the path of your own graphs (they are taken whole), a
                :class:`gsat.Dataset` or a :class:`gsat.GraphStore`; or a split of the run's own
                data, as in ``run.graphs("valid")``. (default: the run's own data)
            split: ``"train"``, ``"valid"``, ``"test"`` or ``"all"``. (default: ``"test"``)

        Returns:
            The graphs. A named data set is split by the seed of the run, so that its test graphs
            are not among those the model was trained on.

        Raises:
            DataError: If there is no such data or split, or the graphs don't fit the model.
        """
        return self._graphs(data, split)[0]

    def predict(self, data: Data | None = None, split: str = "test") -> PredictionTable:
        """Predict graphs, or nodes, in the order of the graphs; labels are not needed."""
        store, class_names = self._graphs(data, split, labelled=False)
        level = self.model.task.level
        predicted, spread = self.model.predict_with_spread(store)
        classes = self.model.task.classes
        graph, node = store.target_places() if level == "node" else (np.arange(len(store)), None)
        return PredictionTable(
            *predicted,
            level=level,
            graph=graph,
            node=node,
            class_names=class_names if len(class_names or ()) == classes else None,
            spread=spread,
        )

    def predict_table(self, path: str | Path, *, smiles: str = "") -> PredictedTable:
        """Predict the molecules of a table; every row and column of it is kept.

        Args:
            path: A .csv, .tsv, .smi or .sdf file, gzipped or not, or a .parquet file.
            smiles: The column of SMILES. (default: that of the training, or found)

        Returns:
            The table with predictions, and notes on the rows that could not be read.

        Raises:
            RunError: If the model was not trained on molecules given as SMILES.
            DataError: If the table can't be read.

        Example:
            ``run.predict_table("new.csv").save("predictions.csv")``
        """
        return predict_table(self.model, Path(path), smiles)

    @overload
    def explain(self, data: Data | None = ..., *, graph: int, node: int | None = ...,
                top: int | str | None = ..., above: float | None = ...,
                split: str = ..., refine: int | None = ...) -> Explanation: ...  # fmt: skip
    @overload
    def explain(self, data: Data | None = ..., *, graph: None = ..., node: int,
                top: int | str | None = ..., above: float | None = ...,
                split: str = ..., refine: int | None = ...) -> Explanation: ...  # fmt: skip
    @overload
    def explain(self, data: Data | None = ..., *, graph: None = ..., node: None = ...,
                top: int | str | None = ..., above: float | None = ...,
                split: str = ..., refine: int | None = ...) -> list[Explanation]: ...  # fmt: skip
    def explain(
        self,
        data: Data | None = None,
        *,
        graph: int | None = None,
        node: int | None = None,
        top: int | str | None = None,
        above: float | None = None,
        split: str = "test",
        refine: int | None = None,
    ) -> Explanation | list[Explanation]:
        """Explain one graph, one node, or all graphs of a split.

        Args:
            data: See :meth:`graphs`. (default: the run's own data)
            graph: The number of a graph within the split. (default: all, or 0 with ``node``)
            node: The number of a node of that graph, where the model is node-level.
                (default: the whole graph)
            top: Keep only the highest-scored edges: a number, or a share such as ``"20%"``.
                (default: all edges)
            above: Keep only the edges scored above this probability. (default: all edges)
            split: See :meth:`graphs`. (default: ``"test"``)
            refine: Refinement passes; see :meth:`GSAT.refined`. (default: as the model has it)

        Returns:
            One explanation if ``graph`` or ``node`` is given, else one per graph.

        Raises:
            GSATError: If there is no such graph or node, or a budget is out of range.
        """
        store, class_names = self._graphs(data, split)
        if graph is None and node is None:
            chosen = store
        else:
            graph = 0 if graph is None else graph
            if not 0 <= graph < len(store):
                raise GSATError(f"there is no graph {graph}: the graphs are 0 to {len(store) - 1}")
            chosen = store.select([graph])
        names = {"class_names": class_names, "node_types": store.meta.get("node_types")}
        trust = {"doubt": "; ".join(self.doubts()), "support": self.support()}
        explained = []
        for explanation in self.model.explain(chosen, refine=refine):
            explanation = explanation if node is None else explanation.of_node(node)
            explanation = add_positions(explanation, store.meta)
            for name, value in names.items():
                if value is not None:
                    explanation[name] = list(value)
            explanation.update({name: text for name, text in trust.items() if text})
            explained.append(explanation.within(top, above))
        return explained if graph is None else explained[0]

    def save_scores(
        self, path: str | Path, data: Data | None = None, split: str = "test"
    ) -> tuple[int, int]:
        """Write the scores of all edges of a split; see :func:`gsat.draw.write_scores_npz`.

        Returns:
            Number of graphs, and of edges.
        """
        store = self.graphs(data, split)
        logits, scores = self.model.score_edges(store)
        level = self.model.task.level
        write_scores_npz(path, store, scores.numpy(), logits=logits.numpy(), level=level)
        return len(store), len(scores)

    # -- audits ---------------------------------------------------------------------------------

    def audit(
        self,
        data: Data | None = None,
        *,
        split: str = "test",
        others: Sequence[str | Path | Run] = (),
        sanity: bool = False,
        top: float | None = None,
        above: float | None = None,
        progress: bool = False,
        **settings: Any,
    ) -> AuditReport:
        """Audit the explanations: are they sufficient, necessary, robust, consistent?

        Measured without ground truth, on held-out graphs. An audit of the run's own validation or
        test graphs is kept in the run directory, and explanations carry its verdict.

        Args:
            data: See :meth:`graphs`. (default: the run's own data)
            split: See :meth:`graphs`. (default: ``"test"``)
            others: Further runs to compare with. (default: none)
            sanity: Whether to compare with an untrained model and one trained on shuffled labels.
                (default: False)
            top: The share of edges in an explanation. (default: as the model decides)
            above: The score above which an edge is in an explanation. (default: the same)
            progress: Whether to show a bar on a terminal. (default: False)
            **settings: Settings of :class:`gsat.audit.settings.AuditSettings` by name.

        Returns:
            The audit; ``.save("audit.html")`` writes a page.

        Raises:
            GSATError: If the model gives no explanations, or an option is out of range.
        """
        chosen = validated(AuditSettings, settings, owner="the audit")
        store = self.graphs(data, split)
        audit = audit_model(
            self.model, store, top=top, above=above, settings=chosen, progress=progress
        )
        graphs = chosen_graphs(store, chosen, audit.unit)
        more: Measures = {"steady": mean_stability(self.log)}
        if others:
            models = [self.model, *map(_explaining_model, others)]
            unit = common_unit(models)
            more |= stability([score_graphs(model, graphs, unit) for model in models])
        if sanity:
            more |= compare_with_untrained(self.model, self.recipe, self.dataset, graphs, progress)
        audit = audit.adding(more)
        count = str(audit.graphs)
        if audit.graphs != audit.available:
            count += f" of {audit.available}"
        about = [self._description, f"Graphs: {count} · explanation: {audit.explanation}"]
        if others:
            about.append(f"Compared with {len(others)} other run{'s' if len(others) != 1 else ''}")
        what = Path(str(data)).name if isinstance(data, str | Path) else self.recipe.data.label
        title = f"Audit of {self.recipe.method} on {what}"
        if data is None:
            title += f", {split} set"
        report = AuditReport(audit, title, tuple(about))
        if data is None and split in ("valid", "test") and self.path is not None and self.finished:
            kept = {"split": split, "best_epoch": self.result["best_epoch"]}
            write_audit(self.path, {**report.as_dict(), **kept})
        return report

    @property
    def last_audit(self) -> dict[str, Any] | None:
        """What ``audit.json`` of the run directory holds; None without one."""
        if self.path is None or not self.finished:
            return None
        try:
            status = (self.path / AUDIT).stat()
        except OSError:
            return None
        stamp = status.st_ino, status.st_mtime_ns, status.st_size
        if stamp != self._audit_read:
            self._audit = read_audit(self.path, self.result["best_epoch"])
            self._audit_read = stamp
        return self._audit

    def short_audit(self, *, share: float = SHARE, progress: bool = False) -> AuditReport | None:
        """Audit as many validation graphs as a share of the training time allows.

        ``gsat train`` ends with such an audit, which is kept as by :meth:`audit`.

        Returns:
            The audit; None if there are, or the time allows, fewer than 20 graphs.

        Raises:
            GSATError: If the model gives no explanations.
        """
        quick = AuditSettings.quick()
        try:
            graphs = chosen_graphs(self.graphs("valid"), quick, unit_of(self.model))
        except DataError:  # no validation graphs, or none with two edges
            return None
        if len(graphs) < LEAST:
            return None
        count = affordable(self.model, graphs, share * self.result["seconds"] / PASSES)
        if count < LEAST:
            return None
        settings = quick.model_copy(update={"graphs": count})
        return self.audit(split="valid", progress=progress, **settings.model_dump())

    def verdict(self) -> tuple[str, bool]:
        """The verdict of the last audit, or why it can't be read, and whether the audit passed.

        The text is empty without an audit.
        """
        try:
            audit = self.last_audit
        except GSATError as error:
            return str(error), False
        return ("", False) if audit is None else (audit_line(audit), is_faithful(audit))

    def weaknesses(self) -> list[str]:
        """Weaknesses of the model on its validation data."""
        if not self.finished:
            return ["the training of this model has not ended"]
        share = None
        if self.model.task.metric == "accuracy":
            with suppress(GSATError, OSError):  # the data may be elsewhere
                share = majority(self.dataset.valid.labels(self.model.task.level))
        return model_notes(self.valid, share)

    def doubts(self) -> list[str]:
        """The evidence against the explanations: weaknesses of the model, then a bad audit."""
        text, passed = self.verdict()
        return [*self.weaknesses(), *([text] if text and not passed else [])]

    def support(self) -> str:
        """The verdict of an audit that the explanations passed; empty without one."""
        text, passed = self.verdict()
        return text if passed else ""

    # -- molecules ------------------------------------------------------------------------------

    def explain_molecules(
        self,
        data: Data | None = None,
        *,
        smiles: str | Sequence[str] | None = None,
        split: str = "test",
        target: str | None = None,
    ) -> MoleculeReport:
        """Explain molecules by their fragments, each with a signed effect.

        Args:
            data: See :meth:`graphs`. (default: the run's own data)
            smiles: One SMILES or several, in place of ``data``. (default: none)
            split: See :meth:`graphs`. (default: ``"test"``)
            target: The class or label that effects are measured on. (default: the predicted one)

        Returns:
            The molecules; ``.save("report.html")`` writes a page of them.

        Raises:
            GSATError: If the graphs are not molecules, or there is no such target.
        """
        if smiles is None:
            store = self.graphs(data, split)
        elif data is None:
            store = read_smiles(self.model, [smiles] if isinstance(smiles, str) else smiles)
        else:
            raise GSATError("data and smiles both say what to explain; give one of them")
        task = self.model.task
        if task.level != "graph" or not store.has(SMILES):
            raise DataError("these graphs are not molecules: they carry no SMILES")
        explanations = self.explain(store)
        plain = output_names(task, explanations[0].get("class_names") if explanations else None)
        names = readable_names(plain, self.model)
        if task.kind != "regression":
            for explanation in explanations:
                explanation.class_names = names
        molecules = explain_molecules(
            self.model,
            store,
            explanations,
            target=find_target(target, plain),
            nearest=self._training_molecules,
        )
        title = f"Explanations of {len(molecules)} molecule{'s' if len(molecules) != 1 else ''}"
        if isinstance(data, str | Path):
            title += f" of {Path(str(data)).name}"
        elif data is None and smiles is None:
            title += f" of the {split} set"
        lines = []
        if self.finished:
            sets = (("validation", self.valid), ("test", self.test))
            lines = [f"{name} set: {_metrics_line(metrics, 3)}" for name, metrics in sets]
        if verdict := self.support():
            lines.append(verdict)
        info = ReportInfo(
            title=title,
            outputs=names,
            about=[self._description, *([" · ".join(lines)] if lines else [])],
            notes=self.doubts(),
            regression=task.kind == "regression",
            rejected=[] if data is None else store.meta.get("rejected", []),
        )
        return MoleculeReport(molecules, info, task)

    def patterns(self, data: Data | None = None, split: str = "test") -> PatternReport:
        """Find the fragments of molecules that recur in explanations, by predicted class.

        Returns:
            The patterns; ``.save("patterns.html")`` writes a page of them.
        """
        report = self.explain_molecules(data, split=split)
        groups = find_patterns(report.molecules, report.task, report.info.outputs)
        title = report.info.title.replace("Explanations of", "Patterns in the explanations of")
        return PatternReport(groups, report.molecules, replace(report.info, title=title))

    @cached_property
    def _training_molecules(self) -> NearestMolecules | None:
        """The training molecules; None if they are not here, or the data is not of molecules."""
        try:
            train = self.dataset.train
            return NearestMolecules(train.texts(SMILES)) if train.has(SMILES) else None
        except (GSATError, OSError):
            return None

    # -- metrics --------------------------------------------------------------------------------

    def evaluate(
        self, data: Data | None = None, split: str = "test", *, refine: int | None = None
    ) -> dict[str, Any]:
        """Measure predictions, and explanations where the ground truth is known.

        Returns:
            Metrics by name, as fractions; None where one is undefined.
        """
        store = self.graphs(data, split)
        if self.model.task.level == "graph" and store.has(SMILES):
            store = with_labels(store)  # rows of another table may lack a label
        return evaluate(self.model if refine is None else self.model.refined(refine), store)

    def readable_metrics(
        self, metrics: dict[str, Any], data: Data | None = None, split: str = "test"
    ) -> dict[str, float | None]:
        """Metrics for display by title; see :func:`shown_metrics`."""
        undefined = shown_metrics(metrics, True) != shown_metrics(metrics, False)
        return shown_metrics(metrics, undefined and self.has_truth(data, split))

    def has_truth(self, data: Data | None = None, split: str = "test") -> bool:
        """Whether the ground truth of explanations is known."""
        return self._graphs(data, split, labelled=False)[0].has("edge_truth")

    @property
    def _description(self) -> str:
        return (
            f"Model: {self.recipe.method} with {self.recipe.backbone.name}, trained on "
            f"{self.recipe.data.label}, seed {self.recipe.seed}"
        )

    @property
    def _folder(self) -> RunDirectory:
        if self.path is None:
            raise GSATError("this run was not saved: train it with a run directory (out=...)")
        return RunDirectory(self.path)

    def _graphs(
        self, data: Data | None, split: str, labelled: bool = True
    ) -> tuple[GraphStore, Sequence[str] | None]:
        """Graphs and the names of their classes; labels of files are read only if ``labelled``."""
        if isinstance(data, GraphStore):
            return data, self._names(data)
        if isinstance(data, str) and data in (*SPLIT_NAMES, "all"):
            split, data = data, None
        if isinstance(data, (str, Path)) and is_table(str(data)):
            store = read_like_training(self.model, Path(full_name(str(data))))
            return for_task(store, self.model.task, store.meta["classes"]), self._names(store)
        if isinstance(data, (str, Path)) and is_path(str(data)):
            classes = self.recipe.data.options.get("classes") or []
            store = read(Path(full_name(str(data))))
            validate_graphs(store, name=str(data))
            if labelled:
                self.model.check_fits(store)
                store = for_task(store, self.model.task, classes)
            return store, classes or store.meta.get("classes")
        if isinstance(data, str | Path):
            dataset = load_dataset(data, seed=self.recipe.split_seed)
        else:
            dataset = self.dataset if data is None else data
        store = dataset.split(split)
        if not len(store):
            raise DataError(f"the split '{split}' of {dataset.name} is empty")
        return store, self._names(store)

    def _names(self, store: GraphStore) -> Sequence[str] | None:
        """Names of the classes; with several labels or numbers, of these."""
        several = self.model.task.kind in ("multilabel", "regression")
        return store.meta.get("labels" if several else "classes")


def open_run(
    path: str | Path | Sequence[str | Path],
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
) -> Run:
    """Open a run directory, or several as one ensemble.

    Args:
        path: The run directory, or several, trained on one split of one data set: predictions and
            explanations are then means, with the spread over the runs.
        model: The model that was given to :func:`gsat.fit`, made again, where its backbone is a
            network of your own (:func:`gsat.wrap`); it gets the weights of the run.
            (default: ``None``)
        data: The data that was given to :func:`gsat.fit`, where it is at no path.
            (default: ``None``)

    Returns:
        The run; nothing is loaded yet, unless there are several.

    Raises:
        RunError: If there is no run.
        GSATError: If several runs do not fit together.
    """
    if not isinstance(path, str | Path):
        if model is not None:
            raise GSATError("model=… is for one run; make an ensemble by gsat.Ensemble([…])")
        return _open_several(path, data)
    folder = check_run(path)
    return Run(folder, model=None if model is None else load(folder, model), data=data)


def _open_several(paths: Sequence[str | Path], data: Dataset | None) -> Run:
    opened = [Run(check_run(path)) for path in paths]
    if not opened:
        raise GSATError("at least one run directory was needed, and none was given")
    first = opened[0].recipe
    for run in opened[1:]:
        if (run.recipe.data.name, run.recipe.split_seed) != (first.data.name, first.split_seed):
            raise GSATError(
                f"{run.path} is of {run.recipe.data.label} split by seed {run.recipe.split_seed}, "
                f"{opened[0].path} of {first.data.label} split by {first.split_seed}: what one was "
                "trained on would test another; train them with one data.split_seed"
            )
    return Run(model=Ensemble([run.model for run in opened]), recipe=first, data=data)


def load(path: str | Path, model: GSAT | None = None) -> InterpretableModel:
    """Load the model of a run's best epoch, ready to predict and explain.

    Args:
        path: The run directory, also of an ensemble.
        model: The model that was given to :func:`gsat.fit`, built again, where its backbone is a
            network of your own (:func:`gsat.wrap`); it gets the weights of the run and is
            returned. (default: None, built from the run directory)

    Returns:
        The model, in evaluation mode.

    Raises:
        RunError: ``path`` is not a run, or has no best epoch yet, or the model does not fit it.
        CheckpointError: The weights do not fit the model.
    """
    if model is None:
        if not (Path(path) / MEMBERS).is_dir():
            return load_model(path)
        folder = RunDirectory.open(path)
        _ = folder.result  # raises unless it is finished
        return Ensemble(member_folders(folder))
    weights, described = read_model(model_folder(path))
    trained = described["model"]
    model.add_snapshots(trained.get("snapshots", 0))
    ours = {**model.config, **model.config["backbone"]}
    for key, value in {**trained, **trained["backbone"]}.items():
        if key not in ("backbone", "r") and ours.get(key) != value:
            raise RunError(
                f"the model given does not fit {path}: its {key} is {ours.get(key)!r}, the run's "
                f"{value!r}"
            )
    model.r, model.input = trained["r"], described.get("input")
    return fill(model, weights, path)


def _metrics_line(metrics: dict[str, Any], digits: int) -> str:
    shown = shown_metrics(metrics, has_truth=False).items()
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in shown if value is not None)


def _explaining_model(other: str | Path | Run) -> InterpretableModel:
    """The model of another run, which has to explain."""
    model = load_any(other) if isinstance(other, str | Path) else other.model
    if not model.explains:
        raise GSATError(f"the method of {other} gives no explanations to compare with")
    return model
