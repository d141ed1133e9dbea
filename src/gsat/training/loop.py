"""The training loop: order, randomness, selection, checkpoints, logs and progress.

The steps are those of the method (:class:`gsat.methods.Method`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.core.errors import CheckpointError, DataError, Interrupted, RunError, shown
from gsat.core.parsing import check_model
from gsat.core.writing import disk_errors, write_text
from gsat.datasets.load import Dataset
from gsat.datasets.molecule_tables import input_of
from gsat.graphs import GraphBatch
from gsat.launch.interrupts import StopRequest
from gsat.launch.progress import Progress
from gsat.methods import METHODS, Context, Method, Phase
from gsat.models import BACKBONES, Backbone, ModelOutput
from gsat.models.weights import outline
from gsat.ops import Draws, keep_freed_memory, return_freed_memory
from gsat.tasks import Task
from gsat.training import checkpoint
from gsat.training.checkpoint import State, Tensors
from gsat.training.evaluation import measure
from gsat.training.pretrained_cache import PretrainedEntry, pretrained_entry
from gsat.training.process_group import ProcessGroup, resume_command
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory
from gsat.training.run_schemas import LoopValues
from gsat.training.selection import (
    Best,
    ScoreStability,
    Snapshots,
    copy_weights,
    is_better,
    is_finished,
    more_stable,
)
from gsat.training.time_spent import Clock, Spent

REJECTED = "rejected.csv"  # in a run directory: the rows of a table that were not used
CHECKPOINT_SECONDS = 30.0  # minimum time between checkpoints, which are written between epochs

Rows = NDArray[np.int64]

# Called with the name of each run as it ends, and its result or, if it failed, why.
OnDone = Callable[[str, dict[str, Any] | str], None]


@dataclass(frozen=True)
class TrainOptions:
    """Options of a training that do not change its results."""

    device: str = "cpu"
    progress: bool = False  # whether to show a bar on a terminal
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    pretrained_cache: str | Path | None = None  # folder of pretrained backbones
    jobs: int = 1  # ensemble members trained at the same time, each in its own process
    done: OnDone | None = None
    warn: Callable[[str], None] | None = None  # called with a line per damaged checkpoint
    member_runs: Sequence[Path] = ()  # finished runs that may be copied as ensemble members
    group: ProcessGroup = field(default_factory=ProcessGroup)


class Loop:
    """Train a method on a data set, in a run directory or in memory."""

    def __init__(
        self,
        method: Method,
        data: Dataset,
        *,
        batch_size: int,
        seed: int,
        run: RunDirectory | None = None,
        options: TrainOptions | None = None,
        pretrained: PretrainedEntry | None = None,
        label: str = "",
    ) -> None:
        self.method, self.data, self.batch_size = method, data, batch_size
        options = options or TrainOptions()
        self.group, self.device = options.group, options.device
        self.source, self.run = run, run if self.group.is_main else None
        self.progress = Progress(label, quiet=not (options.progress and self.group.is_main))
        self.checkpoint_seconds, self.pretrained = options.checkpoint_seconds, pretrained
        self.draws = Draws(seed, "training")
        self.best: Best | None = None
        self.best_weights: Tensors | None = None
        self.snapshots, self._stability = Snapshots(method), ScoreStability()
        self.done = 0  # finished epochs, over all phases
        self.spent = run.read_spent() if run else Spent()  # in earlier sessions as well
        self._stop = StopRequest(
            lambda: self.progress.print_line(
                "stopping after this epoch; press Ctrl-C again to stop at once"
            )
        )
        # Views are made once; a split is read many times.
        self.splits = {name: data.split(name) for name in ("train", "valid", "test")}
        for name, store in self.splits.items():
            if not len(store):
                raise DataError(f"the split '{name}' has no {data.task.level}s with labels")
            data.task.check_labels(torch.from_numpy(store.labels(data.task.level)))

    # -- the run --------------------------------------------------------------------------------

    def resume(self) -> list[str]:
        """Restore the last checkpoint of the run directory; :meth:`clean` has to follow."""
        assert self.source is not None
        if not checkpoint.exists(self.source.checkpoints):
            return []
        state, problems = checkpoint.read(self.source.checkpoints)
        phase, _ = self._place(max(state.epoch - 1, 0))
        self.method.begin(phase.name)
        try:
            values = check_model(LoopValues, state.values)
            checkpoint.restore(self.method, state.tensors, state.values)
            self.snapshots.restore(state.snapshots, self.method.model)
        except Exception as error:  # untrusted values can raise anything
            reason = shown(" ".join(str(error).split()) or type(error).__name__)
            raise CheckpointError(f"the checkpoint does not fit this model: {reason}") from error
        self.done = state.epoch
        if values.best is not None:
            best = state.values["best"]  # unlike its checked copy, with whole numbers as they were
            stability = values.best.score_stability
            self.best = Best(best["epoch"], best["valid"], stability, best.get("top"))
        self.best_weights = state.best
        return problems

    def clean(self) -> None:
        """Remove log lines, checkpoints and best models newer than the restored checkpoint."""
        if self.run is None:
            return
        self.run.clear_partial_files()
        if checkpoint.exists(self.run.checkpoints):
            checkpoint.discard_newer(self.run.checkpoints, self.done)
        self.run.cut_log(self.done)
        if self.best_weights is not None and self.best is not None:
            self.run.write_best(self.best_weights, self._config(), self.best.epoch)
        else:
            self.run.clear_best()

    def save_start(self) -> None:
        """Save the model as it was given: the recipe can't make these weights again."""
        self.method.begin(self.method.phases()[0].name)
        if self.run:
            self._save(Spent())

    def train(self) -> dict[str, Any]:
        """Run all epochs that are left.

        The first Ctrl-C finishes the epoch, saves it and stops; a second one stops at once, and
        the run can be resumed from its last checkpoint.
        """
        keep_freed_memory()
        started, last_saved = Clock(), time.monotonic()
        total = sum(phase.epochs for phase in self.method.phases())
        line: dict[str, Any] = {}
        disk = disk_errors(self.run.path) if self.run else nullcontext()
        threads = self.method.model.threads()
        used = self.method.model.being_trained()
        with disk, threads, used, self._stop, self.group.report_lost_process():
            if self.done == 0:
                self._load_first_phase()
            elif not self._is_finished(self.done):
                # The next epoch is compared with these scores.
                self._evaluate("valid", self._context(self.done - 1))
            self.progress.start(total, self.done)
            try:
                while not self._is_finished(self.done):
                    line = self._epoch(*self._place(self.done))
                    self.done += 1
                    now = time.monotonic()
                    self._keep_first_phase(self.spent.and_since(started))
                    due = now - last_saved >= self.checkpoint_seconds
                    finished = self._is_finished(self.done)
                    stopping = self.group.any(self._stop.made)
                    if self.run and (due or stopping or finished):
                        self._save(self.spent.and_since(started))
                        last_saved = now
                    if stopping and not finished:
                        command = resume_command(self.group.size)
                        how = f"; resume with: {command} {self.run.path}" if self.run else ""
                        stopped = Interrupted(f"stopped after epoch {self.done} of {total}{how}")
                        raise self.group.common_error(stopped)
            finally:
                self.progress.stop()
                return_freed_memory()
            return self._finish(line, started)

    def _load_first_phase(self) -> None:
        """Take the first phase from the cache of pretrained backbones, if it is there."""
        cached = self.pretrained.load() if self.pretrained and self.run else None
        if cached is None:
            return
        log, spent = cached
        assert self.run is not None
        for line in log:
            self.run.log(line)
        self.done, self.spent = len(log), self.spent.and_also(spent)

    def _keep_first_phase(self, spent: Spent) -> None:
        """Store the first phase in the cache of pretrained backbones if it has just ended."""
        if self.pretrained and self.run and self.pretrained.method.pretrained_weights:
            log = self.run.read_log()
            if len(log) == self.done:  # the log is whole
                self.pretrained.store(log, spent)
            self.pretrained.method.pretrained_weights = {}

    def _is_finished(self, epochs_done: int) -> bool:
        """Whether training is over after this number of epochs."""
        return is_finished(self.method.phases(), epochs_done, self.best)

    def _place(self, epoch: int) -> tuple[Phase, int]:
        """The phase of an epoch, and the epoch's number within it."""
        for phase in self.method.phases():
            if epoch < phase.epochs:
                return phase, epoch
            epoch -= phase.epochs
        raise RunError(f"the recipe has {epoch + 1} epochs fewer than the run has already done")

    def _context(self, epoch: int) -> Context:
        """Where an epoch is evaluated; its number counts over all phases."""
        phase, number = self._place(epoch)
        return Context(phase.name, number, self.draws.child(phase.name, number))

    # -- an epoch -------------------------------------------------------------------------------

    def _epoch(self, phase: Phase, epoch: int) -> dict[str, Any]:
        """Train, evaluate, select and log; returns the line of the log."""
        if epoch == 0:
            self.method.begin(phase.name)
        draws = self.draws.child(phase.name, epoch)
        train: dict[str, Any] = self._train_epoch(phase, epoch, draws) if phase.steps else {}
        context = Context(phase.name, epoch, draws)
        if phase.traces:
            train = {**self._evaluate("train", context), **train}
        valid = self._evaluate("valid", context)
        self.method.finish_epoch(context, valid)
        line: dict[str, Any] = {
            "phase": phase.name, "epoch": epoch, "train": train, "valid": valid, "selected": False
        }  # fmt: skip
        stability = None
        if phase.explains:
            stability = self.group.on_main(lambda: self._stability.value)
            line["score_stability"] = stability
        if phase.selectable_from is not None and epoch >= phase.selectable_from:
            self.snapshots.take(self.done, self.method.model)
            line["selected"] = self._choose(Best(self.done, valid, stability))
        if epoch == phase.epochs - 1 or self._is_finished(self.done + 1):
            self.method.finish_phase(context, lambda split: self._evaluate(split, context))
        if self.run:
            self.run.log(line)
        self.progress.advance(status(self.method.model.task, valid))
        return line

    def _train_epoch(self, phase: Phase, epoch: int, draws: Draws) -> dict[str, float]:
        """Step through the training set; returns the mean of each loss over the batches."""
        store = self.splits["train"]
        order = draws.child("order").permutation(len(store))
        for network in self.method.networks().values():
            network.train()
        sums: dict[str, Tensor] = {}
        batches = cut_into_batches(order, self.batch_size, store.node_counts, self.group.parts)
        for step, rows in enumerate(batches):
            batch = store.batch(self.group.part(rows)).to(self.device)
            context = Context(phase.name, epoch, draws, step, len(batches), self.group)
            parts = self.method.step(batch, context)
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value.detach()
        self.group.synchronise_statistics(self.method.networks().values())
        means = {name: float(value) / len(batches) for name, value in sums.items()}
        means = self.group.average(means)
        if not all(math.isfinite(value) for value in means.values()):
            bad = ", ".join(f"{k} = {v}" for k, v in means.items() if not math.isfinite(v))
            raise self.group.common_error(breakdown(epoch, bad))
        return means

    def _evaluate(self, split: str, context: Context) -> dict[str, Any]:
        """The metrics of a split; the first process measures them for all."""
        return self.group.on_main(lambda: self._measure(split, context))

    def _measure(self, split: str, context: Context) -> dict[str, Any]:
        def score(batch: GraphBatch) -> tuple[ModelOutput, dict[str, Tensor]]:
            return self.method.evaluate(batch.to(self.device), context)

        for network in self.method.networks().values():
            network.eval()
        explains = {phase.name: phase.explains for phase in self.method.phases()}[context.phase]
        with torch.no_grad():
            store, model = self.splits[split], self.method.model
            try:
                see = self._stability.see if split == "valid" else None
                return measure(
                    store, model, score, self.batch_size, explains=explains, on_scores=see
                )
            except FloatingPointError as error:
                raise breakdown(context.epoch, f"{split} {error}") from None

    # -- selection ------------------------------------------------------------------------------

    def _choose(self, new: Best) -> bool:
        """Select the epoch that has ended if it is the best so far; returns whether it is."""
        task = self.method.model.task
        if "last" in (self.method.reports, self.method.training.selection):
            return False
        if self.method.training.selection == "stable":
            labels = self.splits["valid"].count(task.level)
            self.best, chosen = more_stable(task, new, self.best, labels)
        else:
            chosen = is_better(task, new.valid, self.best)
        if chosen:
            self._select(new)
        return chosen

    def _select(self, best: Best) -> None:
        """Make the current model the best so far."""
        self.best, self.best_weights = best, copy_weights(self.method.model)
        if self.run:
            self.run.write_best(self.best_weights, self._config(), best.epoch)

    def _complete_model(self) -> dict[str, Any]:
        """Finish the model of the reported epoch; return its metrics on the validation set."""
        assert self.best is not None
        assert self.best_weights is not None

        def batches() -> Iterator[GraphBatch]:
            train = self.splits["train"].batches(self.batch_size)
            return (batch.to(self.device) for batch in train)

        if not self.snapshots.complete(self.method, self.best_weights, batches):
            return self.best.valid
        if self.run:
            weights = copy_weights(self.method.model)
            self.run.write_best(weights, self._config(), self.best.epoch)
        return self._evaluate("valid", self._context(self.best.epoch))

    def _finish(self, line: dict[str, Any], started: Clock) -> dict[str, Any]:
        """Load the weights of the reported epoch and measure them on the test set, once."""
        selected = "best"
        if self.best is None:
            # No epoch could be chosen (too few for r to reach its final value), or the last is to
            # be reported.
            selected = "last"
            valid = line.get("valid") or self._evaluate("valid", self._context(self.done - 1))
            self._select(Best(self.done - 1, valid))
        assert self.best is not None
        valid = self._complete_model()
        test = self._evaluate("test", self._context(self.best.epoch))
        self.method.model.eval()
        self.spent = self.spent.and_since(started)
        return {
            "best_epoch": self.best.epoch,
            "selected": selected,
            **({} if self.method.phases()[-1].patience is None else {"epochs": self.done}),
            "valid": valid,
            "test": test,
            **self.spent.values(),
            **self.method.report(),
        }

    # -- saving ---------------------------------------------------------------------------------

    def _save(self, spent: Spent) -> None:
        """Write a checkpoint."""
        assert self.run is not None
        tensors, values = checkpoint.capture(self.method)
        values["best"] = vars(self.best) if self.best else None
        state = State(self.done, tensors, self.best_weights, values, self.snapshots.weights)
        self.run.check_here()
        self.run.sync_log()
        checkpoint.write(self.run.checkpoints, state)
        self.run.write_spent(spent, self.done)

    def _config(self) -> dict[str, Any]:
        return self.method.model.description(self.method.name)


def cut_into_batches(
    order: Rows,
    batch_size: int,
    node_counts: Rows,
    parts: Callable[[Rows], Sequence[Rows]],
) -> list[Rows]:
    """Cut an epoch's graphs into batches, in order.

    A batch norm needs two nodes: a batch with fewer in any of its parts (a last graph of one atom,
    say) is joined to one beside it.
    """

    def is_small(rows: Rows) -> bool:
        return min(int(node_counts[part].sum()) for part in parts(rows)) < 2

    batches: list[Rows] = []
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        if batches and is_small(batches[-1]):
            rows = np.concatenate([batches.pop(), rows])
        batches.append(rows)
    if len(batches) > 1 and is_small(batches[-1]):
        batches[-2:] = [np.concatenate(batches[-2:])]
    return batches


def status(task: Task, valid: Mapping[str, Any]) -> str:
    """The metrics of an epoch, for the progress bar."""
    shown = []
    for name in (task.metric, "explanation_auc"):
        value = valid.get(name)
        if value is not None:
            shown.append(f"{name.replace('_', ' ')} {value:.3f}")
    return "valid " + ", ".join(shown) if shown else ""


def breakdown(epoch: int, what: str) -> RunError:
    """The error of a loss or prediction that is not a finite number."""
    return RunError(
        f"training broke down in epoch {epoch}: {what}; lower the learning rate (training.lr) or "
        f"check the features for NaN"
    )


# -- a method and its run directory ---------------------------------------------------------------


def make_method(recipe: Recipe, data: Dataset, kind: type[Method] | None = None) -> Method:
    """Make the method of a recipe, or one of another class, on a new backbone for the data."""
    settings = recipe.backbone.model_dump(exclude_none=True)
    network = BACKBONES[settings.pop("name")]

    def build() -> Backbone:
        return network.for_data(data, seed=recipe.seed, **settings)

    outline(build)  # first without memory: a recipe may ask for any size
    backbone = build()
    kind = METHODS[recipe.method] if kind is None else kind
    method = kind.create(backbone, recipe.settings, recipe.training, recipe.seed)
    method.prepare(data)
    return method


def train_method(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    options: TrainOptions,
    *,
    resuming: bool = False,
    save_start: bool = False,
) -> dict[str, Any]:
    """Train a method, in its run directory if there is one; returns the result."""
    group, pretrained = options.group, None
    method.model.input = input_of(data.store)
    if run and not resuming and data.rejected and group.is_main:
        write_text(run.path / REJECTED, data.rejected.to_csv())
    with ExitStack() as locks:
        with group.share_errors():
            # A run may be resumed on another device: only pretraining on the CPU is shared.
            if options.pretrained_cache and run and group.size == 1 and options.device == "cpu":
                cache = options.pretrained_cache
                pretrained = pretrained_entry(cache, run, recipe, method, data.hash)
            loop = Loop(
                method,
                data,
                batch_size=recipe.training.batch_size,
                seed=recipe.seed,
                run=run,
                options=options,
                pretrained=pretrained,
                label=f"{recipe.data.label} seed {recipe.seed}",
            )
            if loop.run:
                locks.enter_context(loop.run.locked())
            problems = loop.resume() if resuming else []
            if save_start and run is not None:
                loop.save_start()
        group.check_same(
            "the recipe, the data or the checkpoint", [recipe.hash(), data.hash, loop.done]
        )
        if resuming:  # all processes have read the checkpoint by now
            if options.warn and group.is_main:
                for problem in problems:
                    options.warn(f"{problem}; resuming from the checkpoint before it")
            with group.share_errors():
                loop.clean()
        result = {
            "dataset": recipe.data.name,
            "method": recipe.method,
            "backbone": recipe.backbone.name,
            "seed": recipe.seed,
            **loop.train(),
            "matches_paper": data.matches_paper,
            "recipe_hash": recipe.hash(),
            "data_hash": data.hash,
            "results_version": method.model.backbone.results_version,
        }
        if loop.run:
            loop.run.write_result(result)
    return result
