"""Open the loop of a run: lock its directory, restore its checkpoint, clear what is newer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from gsat.datasets.load import Dataset
from gsat.launch.progress import Progress
from gsat.methods import Method
from gsat.training.loop import Loop
from gsat.training.pretrained_cache import PretrainedEntry
from gsat.training.process_group import ProcessGroup
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory


@contextmanager
def open_loop(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    *,
    device: str,
    progress: bool,
    checkpoint_seconds: float,
    pretrained: PretrainedEntry | None = None,
    resuming: bool = False,
    save_start: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Iterator[Loop]:
    """Make a loop that is ready to train; its run directory is locked within the ``with`` block."""
    group, problems = ProcessGroup(), []
    with ExitStack() as locks:
        with group.share_errors():
            quiet = not (progress and group.is_main)
            loop = Loop(
                method,
                data,
                batch_size=recipe.training.batch_size,
                seed=recipe.seed,
                run=run,
                device=device,
                progress=Progress(f"{recipe.data.label} seed {recipe.seed}", quiet),
                checkpoint_seconds=checkpoint_seconds,
                pretrained=pretrained,
            )
            if loop.run:
                locks.enter_context(loop.run.locked())
            if resuming:
                problems = loop.resume()
            elif save_start and run is not None:
                loop.save_start()
        group.check_same(
            "the recipe, the data or the checkpoint", [recipe.hash(), data.hash, loop.done]
        )
        if resuming:  # now that all processes have read it
            for problem in problems:
                if warn and group.is_main:
                    warn(f"{problem}; resuming from the checkpoint before it")
            with group.share_errors():
                loop.clean()
        yield loop
