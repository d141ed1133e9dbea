"""The base class of all data sets: options, raw files, graphs and splits.

A data set is one file with one class::

    @gsat.register_dataset("triangles")
    class Triangles(DatasetSource):
        \"\"\"Random graphs: does one hold a triangle?\"\"\"

        class Options(DatasetOptions):
            graphs: int = Field(100, ge=10, description="number of graphs to generate")

        task_settings = {"kind": "binary"}

        def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
            ...

``gsat.load_dataset("triangles", graphs=50)``, recipes, ``gsat train triangles`` and ``gsat
datasets`` find it by its name. Another package announces its data sets as entry points of the
group ``gsat.datasets``; a class in a script is available once the script is imported.

The files of this package import torch, ``gsat.graphs`` and ``gsat.tasks`` inside methods:
``gsat datasets`` imports all of them to list options and files, and importing torch takes seconds.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gsat.core.errors import DataError
from gsat.core.settings import Settings
from gsat.datasets.fetch.raw_files import RawFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from gsat.graphs import GraphStore
    from gsat.tasks import Task

Match = Literal["yes", "rebuilt", "different"]


class DatasetOptions(Settings):
    """Base of a data set's options: typed fields with defaults and descriptions.

    They are the ``[data]`` table of a recipe, beside ``name`` and the seeds, and keyword arguments
    of :func:`gsat.load_dataset`.
    """


class DatasetSource(ABC):
    """Base of all data sets; lists show the first line of a subclass's docstring.

    Subclasses define ``task_settings`` and :meth:`build`, and override what else differs. A class
    may be registered under several names, or match a ``pattern`` of names; methods get the name in
    use.

    Attributes:
        Options: Type of its options. (default: no options)
        task_settings: Arguments of :class:`gsat.Task`, unless the task depends on the options and
            :meth:`task` is overridden. (default: none)
        version: Raise it by one when :meth:`build` changes the graphs; older graphs in the cache
            are then ignored. (default: ``1``)
        files: Raw files by the value of the option ``source``, or under ``""`` without that option.
            (default: none)
        preferred: Value of the option ``source`` that is used where its raw files are on this
            machine and no option is given. (default: that of the option)
        split_options: Options that change the split only; graphs in the cache are shared between
            their values. (default: none)
        pattern: Regular expression of further names, which share the part before the last hyphen
            with a registered name: ``spmotif-0.83`` and ``spmotif-0.5``. (default: none)
        recipe: Family of the shipped recipes to use, such as ``spmotif`` for
            ``recipes/spmotif-gin.toml``; without such a file, the default recipe is used.
            (default: its own name)
        backbone: Default network. (default: ``"gin"``)
        in_paper: Whether the paper reports results on it. (default: ``False``)
        drawn: Whether ``data_seed`` selects graphs from the raw files. (default: ``False``)
        standardised: Whether a regression uses the mean and deviation of its training labels
            instead of those in :meth:`task`. (default: ``False``)
    """

    Options: ClassVar[type[DatasetOptions]] = DatasetOptions
    task_settings: ClassVar[Mapping[str, Any]] = {}
    version: ClassVar[int] = 1
    files: ClassVar[Mapping[str, tuple[RawFile, ...]]] = {}
    preferred: ClassVar[str] = ""
    split_options: ClassVar[frozenset[str]] = frozenset()
    pattern: ClassVar[str] = ""
    recipe: ClassVar[str] = ""
    backbone: ClassVar[str] = "gin"
    in_paper: ClassVar[bool] = False
    drawn: ClassVar[bool] = False
    standardised: ClassVar[bool] = False

    # `options: Any` below, so that subclasses can name the type of their own options.

    def task(self, name: str, options: Any) -> Task:
        """Return the task, by default as in ``task_settings``."""
        from gsat.tasks import Task

        if not self.task_settings:
            raise DataError(f"the data set '{name}' lacks task_settings (or a method task)")
        return Task(**self.task_settings)

    @abstractmethod
    def build(self, name: str, options: Any, data_seed: int) -> GraphStore:
        """Read or generate all graphs; the result is cached for each choice of options.

        Args:
            name: Registered name, or a name that matches ``pattern``.
            options: An instance of ``Options``.
            data_seed: Seed of everything random; a data set with raw files ignores it unless it is
                ``drawn``.

        Returns:
            The graphs, for example from :meth:`GraphStore.from_arrays` or
            :func:`gsat.graphs.from_pyg`.
        """

    def split(self, store: GraphStore, seed: int, options: Any) -> dict[str, NDArray[np.int64]]:
        """Split the graphs, or the nodes where these are labelled.

        Graphs with a field ``split`` (0 train, 1 valid, 2 test, −1 none) are split as it says; if
        it marks no validation graphs, a tenth of the training graphs is drawn for validation.
        Without that field, 80 % are for training, 10 % for validation and 10 % for the test,
        shuffled. The nodes of a single graph are shuffled themselves; the nodes of several graphs
        follow their graphs.

        Args:
            store: The graphs that :meth:`build` returned.
            seed: Seed of the shuffle.
            options: An instance of ``Options``.

        Returns:
            Positions of graphs (or nodes) under ``train``, ``valid`` and ``test``.
        """
        from gsat.datasets import splits

        if store.has("split"):
            marks = store.per_graph("split")
            if (marks == 1).any():
                return splits.given(marks)
            return splits.with_validation(marks, seed)
        if store.has("node_y") and len(store) == 1:
            return splits.shuffled(store.num_nodes, seed)
        parts = splits.shuffled(len(store), seed)
        if not store.has("node_y"):
            return parts
        return {part: store.select(rows).target_nodes() for part, rows in parts.items()}

    def summary(self, name: str) -> str:
        """Describe the data set in one line: by default the first line of the docstring."""
        return (type(self).__doc__ or "").strip().split("\n")[0].rstrip(".")

    def raw_files(self, name: str, options: Any) -> tuple[RawFile, ...]:
        """Return the raw files for these options: by default ``files`` of the option ``source``."""
        return self.files.get(getattr(options, "source", ""), ())

    def matches_paper(self, name: str, options: Any) -> Match:
        """Compare the graphs with the paper's.

        Returns:
            ``"yes"``: the same graphs; ``"rebuilt"``: made again by the same rules;
            ``"different"``: other rules, or not a data set of the paper.
        """
        return "different"

    def overlap(self, options: Any) -> str:
        """Explain why splits share graphs on purpose; empty (the default) if they share none."""
        return ""

    def identity(self, options: Any) -> str | None:
        """Return a text that changes with files that options name; None (the default): no files."""
        return None

    def positions(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Place nodes that are parts of an image.

        Args:
            x: Node features, ``[N, F]``.

        Returns:
            Positions to the right and up, ``[N, 2]``, and brightness from 0 to 1, ``[N]``; None
            (the default) if nodes are not parts of an image.
        """
        return None

    def sources(self, name: str) -> dict[str, tuple[RawFile, ...]]:
        """Return the raw files by the value of the option ``source``, the one in use first.

        Returns:
            The files by value; without that option, one entry under ``""``.
        """
        field = self.Options.model_fields.get("source")
        if field is None:
            return {"": self.raw_files(name, self.Options())}
        first = self.default_source(name)
        values = sorted(typing.get_args(field.annotation), key=lambda value: value != first)
        options = {value: self.Options.model_validate({"source": value}) for value in values}
        return {value: self.raw_files(name, chosen) for value, chosen in options.items()}

    def default_source(self, name: str) -> str:
        """Return the value of the option ``source`` where no option is given; empty without it.

        Nothing is downloaded: ``preferred`` is chosen if its files are on this machine.
        """
        field = self.Options.model_fields.get("source")
        if field is None:
            return ""
        if self.preferred:
            options = self.Options.model_validate({"source": self.preferred})
            if all(file.find() for file in self.raw_files(name, options)):
                return self.preferred
        return str(field.default)
