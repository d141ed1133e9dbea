"""A run, opened: its model, its data, its predictions and explanations."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gsat.core.errors import DataError, GSATError
from gsat.datasets.labels import for_task
from gsat.datasets.load import Dataset, add_positions, load_dataset
from gsat.datasets.own_data import read
from gsat.datasets.registry import full_name, is_path
from gsat.datasets.splits import NAMES as SPLIT_NAMES
from gsat.draw import write_scores_npz
from gsat.graphs import GraphStore
from gsat.graphs.validation import validate_graphs
from gsat.models import InterpretableModel
from gsat.molecules.table import is_table
from gsat.training import molecule_reports as reports
from gsat.training.evaluation import evaluate_model
from gsat.training.members import load_ensemble
from gsat.training.prediction_table import PredictionTable
from gsat.training.recipe import Recipe
from gsat.training.run_audit import Auditing
from gsat.training.run_directory import RunDirectory
from gsat.training.run_files import shown_metrics
from gsat.training.run_molecules import (
    PredictedTable,
    predict_table,
    read_like_training,
    with_labels,
)
from gsat.training.run_trust import doubts, support
from gsat.training.run_verdict import SHARE, short_audit
from gsat.training.train import load, load_data, make_record

if TYPE_CHECKING:
    from gsat.explanation import Explanation
    from gsat.training.run_audit import AuditReport

Data = str | Path | Dataset | GraphStore


class Run(Auditing):
    """A run: what was trained, how well it did, and what its model says about graphs.

    Opening a run reads nothing but small files; the model and the data are loaded when first used.
    :func:`gsat.open_run`, :func:`gsat.train`, :func:`gsat.fit` and :func:`gsat.resume` make one.

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
        known = {"model": model, "recipe": recipe, "result": result, "dataset": data}
        # What is given here is what the cached properties below return.
        self.__dict__.update({name: value for name, value in known.items() if value is not None})

    # -- what it is -----------------------------------------------------------------------------

    @functools.cached_property
    def model(self) -> InterpretableModel:
        """The model of the reported epoch, ready to predict and explain."""
        if self.recipe.members is not None:
            return load_ensemble(self._folder.path)
        return load(self._folder.path)

    @functools.cached_property
    def recipe(self) -> Recipe:
        """Every setting it was trained with."""
        return self._folder.recipe

    @functools.cached_property
    def result(self) -> dict[str, Any]:
        """What ``result.json`` holds; an error for a run that is not finished."""
        return self._folder.result

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The data it was trained on, split as for the training."""
        return load_data(self.recipe)

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry per epoch so far, as in ``metrics.jsonl``; empty if nothing was written."""
        if self.path is None or not (self.path / "metrics.jsonl").is_file():
            return []
        return self._folder.read_log()

    @property
    def finished(self) -> bool:
        """Whether training has ended."""
        return "result" in self.__dict__ or self._folder.result_path.is_file()

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
        return make_record(self.recipe, self.result, self.path)

    def __repr__(self) -> str:
        lines = [f"Run of {self.recipe.method} on {self.recipe.data.label}"]
        lines.append(f"backbone {self.recipe.backbone.name}, seed {self.recipe.seed}")
        if self.finished:
            scores = shown_metrics(self.test, has_truth=False)
            lines.append(
                "test "
                + ", ".join(
                    f"{name} {value:.4f}" for name, value in scores.items() if value is not None
                )
            )
        else:
            lines.append(f"not finished, {len(self.log)} epochs so far")
        return "\n  ".join([*lines, str(self.path or "not saved")])

    def refined(self, looks: int) -> Run:
        """Return the same run with a model that looks again when it explains.

        Args:
            looks: How many further looks; see :meth:`GSAT.refined`.

        Raises:
            GSATError: If the model can't look again.
        """
        view = copy.copy(self)
        view.__dict__["model"] = self.model.refined(looks)
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
        """Predict graphs, or nodes.

        Args:
            data: As in :meth:`graphs`; labels are not needed. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)

        Returns:
            The predictions, in the order of the graphs.
        """
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
            data: As in :meth:`graphs`. (default: the run's own data)
            graph: The number of a graph within the split. (default: all, or 0 with ``node``)
            node: The number of a node of that graph, where the model is node-level.
                (default: the whole graph)
            top: Keep only the highest-scored edges: a number, or a share such as ``"20%"``.
                (default: all edges)
            above: Keep only the edges scored above this probability. (default: all edges)
            split: As in :meth:`graphs`. (default: ``"test"``)
            refine: Further looks at each graph; see :meth:`GSAT.refined`.
                (default: as the model has it)

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
        trust = {"doubt": "; ".join(doubts(self)), "support": support(self)}
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

    def short_audit(self, *, share: float = SHARE, progress: bool = False) -> AuditReport | None:
        """Audit as many validation graphs as a share of the training time allows.

        As by :meth:`audit`, the report is kept in the run directory. ``gsat train`` ends so.

        Args:
            share: Share of the training time. (default: ``0.1``)
            progress: Whether to show a progress bar on a terminal. (default: ``False``)

        Returns:
            The audit; None if there are, or the time allows, fewer than 20 graphs.

        Raises:
            GSATError: If the model gives no explanations.
        """
        return short_audit(self, share=share, progress=progress)

    def explain_molecules(self, data: Data | None = None, **options: Any) -> reports.MoleculeReport:
        """Explain molecules by their fragments, each with a signed effect.

        Args:
            data: As in :meth:`graphs`. (default: the run's own data)
            options: ``smiles``, ``split`` and ``target`` of
                :func:`gsat.training.molecule_reports.molecule_report`.

        Returns:
            The molecules; ``.save("report.html")`` writes a page of them.
        """
        return reports.molecule_report(self, data, **options)

    def patterns(self, data: Data | None = None, split: str = "test") -> reports.PatternReport:
        """Find the fragments of molecules that recur in explanations, by predicted class.

        Args:
            data: As in :meth:`graphs`. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)

        Returns:
            The patterns; ``.save("patterns.html")`` writes a page of them.
        """
        return reports.pattern_report(self, data, split=split)

    def save_scores(
        self, path: str | Path, data: Data | None = None, split: str = "test"
    ) -> tuple[int, int]:
        """Write the scores of all edges of a split, as arrays.

        Args:
            path: An ``.npz`` file; see :func:`gsat.draw.write_scores_npz`.
            data: As in :meth:`graphs`. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)

        Returns:
            How many graphs and edges there are.
        """
        store = self.graphs(data, split)
        logits, scores = self.model.score_edges(store)
        level = self.model.task.level
        write_scores_npz(path, store, scores.numpy(), logits=logits.numpy(), level=level)
        return len(store), len(scores)

    def evaluate(
        self, data: Data | None = None, split: str = "test", *, refine: int | None = None
    ) -> dict[str, Any]:
        """Measure predictions, and explanations where the ground truth is known.

        Args:
            data: As in :meth:`graphs`. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)
            refine: As in :meth:`explain`. (default: as the model has it)

        Returns:
            Metrics by name, as fractions; None where one is undefined.
        """
        store = self.graphs(data, split)
        if isinstance(data, (str, Path)) and is_table(str(data)):
            store = with_labels(store)  # of another table, where some rows may lack one
        return evaluate_model(self.model if refine is None else self.model.refined(refine), store)

    def readable_metrics(
        self, metrics: dict[str, Any], data: Data | None = None, split: str = "test"
    ) -> dict[str, float | None]:
        """Choose the metrics that people read, by title; see :func:`shown_metrics`.

        Args:
            metrics: As :meth:`evaluate` returns them for the same ``data`` and ``split``.
            data: As in :meth:`graphs`. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)
        """
        undefined = shown_metrics(metrics, True) != shown_metrics(metrics, False)
        return shown_metrics(metrics, undefined and self.has_truth(data, split))

    def has_truth(self, data: Data | None = None, split: str = "test") -> bool:
        """Whether the ground truth of explanations is known.

        Args:
            data: As in :meth:`graphs`. (default: the run's own data)
            split: As in :meth:`graphs`. (default: ``"test"``)
        """
        return self._graphs(data, split, labelled=False)[0].has("edge_truth")

    @property
    def _folder(self) -> RunDirectory:
        if self.path is None:
            raise GSATError("this run was not saved: train it with a run directory (out=...)")
        return RunDirectory(self.path)

    def _graphs(
        self, data: Data | None, split: str, labelled: bool = True
    ) -> tuple[GraphStore, Sequence[str] | None]:
        """Graphs, as :meth:`graphs` returns them, and the names of their classes.

        Labels of your own graphs are read as those of the model only if ``labelled``.
        """
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
        """The names of classes or, where there are several labels or numbers, of these."""
        several = self.model.task.kind in ("multilabel", "regression")
        return store.meta.get("labels" if several else "classes")
