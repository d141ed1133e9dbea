"""The base of every data set: what it is called, its options, its files, its graphs.

A data set is one file with one class::

    @gsat.register_dataset("triangles")
    class Triangles(DatasetSource):
        \"\"\"Random graphs: does one hold a triangle?\"\"\"

        class Options(DatasetOptions):
            graphs: int = Field(100, ge=10, description="number of graphs to generate")

        def task(self, name: str, options: Options) -> Task:
            return Task("binary")

        def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
            ...

Nothing else has to be edited: ``gsat.load_dataset("triangles", graphs=50)``, recipes, ``gsat
train triangles`` and ``gsat datasets`` find it by its name. A file of another package is announced
as an entry point of the group ``gsat.datasets``; one in a script counts from its import on.

The files of this package import torch, ``gsat.graphs`` and ``gsat.tasks`` inside ``task``,
``build`` and ``split`` only, not at their top: ``gsat datasets`` imports all of them to list their
options and their files, and importing torch takes seconds.
"""

from __future__ import annotations

import difflib
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ValidationError

from gsat.core.errors import DataError
from gsat.core.settings import SettingInfo, Settings, describe
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

    They stand in the ``[data]`` table of a recipe, beside ``name`` and the seeds, and are keyword
    arguments of :func:`gsat.load_dataset`.
    """


class DatasetSource(ABC):
    """Base of all data sets; the first line of a subclass's docstring describes it in lists.

    Subclasses write :meth:`task` and :meth:`build`, and override what else differs. One class may
    be registered under several names, or answer to a ``pattern`` of names; its methods are given
    the name that was asked for.

    Attributes:
        Options: the type of its options. (default: no options)
        version: raised by one whenever :meth:`build` makes other graphs than before; what was
            built by an older version is then not taken from the cache. (default: ``1``)
        files: the raw files it needs, by the value of its option ``source``; those of a data set
            without that option stand under ``""``. (default: none)
        split_options: options that change the split alone; data sets that differ in no other
            option share their graphs in the cache. (default: none)
        pattern: a regular expression for further names. They share what stands before their last
            hyphen with a registered name, as ``spmotif-0.83`` does with ``spmotif-0.5``.
            (default: none)
        recipe: whose shipped recipes it is trained with, such as ``spmotif`` for
            ``recipes/spmotif-gin.toml``; where there is no such file, the default recipe is used.
            (default: its own name)
        backbone: the name of the network it is trained with where none is asked for.
            (default: ``"gin"``)
        in_paper: whether the paper reports on this data set. (default: ``False``)
        drawn: whether ``data_seed`` draws graphs from the raw files. (default: ``False``)
        standardised: whether a regression gets the centre and the scale of its training labels, in
            place of those of :meth:`task`. (default: ``False``)
    """

    Options: ClassVar[type[DatasetOptions]] = DatasetOptions
    version: ClassVar[int] = 1
    files: ClassVar[Mapping[str, tuple[RawFile, ...]]] = {}
    split_options: ClassVar[frozenset[str]] = frozenset()
    pattern: ClassVar[str] = ""
    recipe: ClassVar[str] = ""
    backbone: ClassVar[str] = "gin"
    in_paper: ClassVar[bool] = False
    drawn: ClassVar[bool] = False
    standardised: ClassVar[bool] = False

    # `options: Any` below, so that subclasses can name the type of their own options.

    @abstractmethod
    def task(self, name: str, options: Any) -> Task:
        """Return what is predicted.

        Args:
            name: The name that was asked for.
            options: An instance of ``Options``.

        Returns:
            The task, whose ``level`` says whether graphs or nodes are labelled.
        """

    @abstractmethod
    def build(self, name: str, options: Any, data_seed: int) -> GraphStore:
        """Read or generate all graphs.

        The result is kept in the cache, so this runs once for each choice of options.

        Args:
            name: The name that was asked for.
            options: An instance of ``Options``.
            data_seed: Decides what is drawn at random; a data set with raw files ignores it unless
                it is ``drawn``.

        Returns:
            The graphs, for example by :meth:`GraphStore.from_arrays` or
            :func:`gsat.graphs.from_pyg`.
        """

    def split(self, store: GraphStore, seed: int, options: Any) -> dict[str, NDArray[np.int64]]:
        """Split the graphs, or the nodes where these are labelled.

        By default 80 % are for training, 10 % for validation and 10 % for the test, shuffled. The
        nodes of a single graph are shuffled themselves; those of several graphs follow their
        graphs.

        Args:
            store: What :meth:`build` returned.
            seed: Decides the shuffle.
            options: An instance of ``Options``.

        Returns:
            Positions of graphs (or nodes) under ``train``, ``valid`` and ``test``.
        """
        from gsat.datasets.splits import shuffled

        if not store.has("node_y"):
            return shuffled(len(store), seed)
        if len(store) == 1:
            return shuffled(store.num_nodes, seed)
        parts = shuffled(len(store), seed)
        return {part: store.select(rows).target_nodes() for part, rows in parts.items()}

    def summary(self, name: str) -> str:
        """Describe the data set in one line.

        Args:
            name: The name that was asked for.

        Returns:
            The description. (default: the first line of the class's docstring)
        """
        return (type(self).__doc__ or "").strip().split("\n")[0].rstrip(".")

    def raw_files(self, name: str, options: Any) -> tuple[RawFile, ...]:
        """Return the raw files that these options need.

        Args:
            name: The name that was asked for.
            options: An instance of ``Options``.

        Returns:
            The files. (default: those of ``files`` for the option ``source``)
        """
        return self.files.get(getattr(options, "source", ""), ())

    def matches_paper(self, name: str, options: Any) -> Match:
        """Say how the graphs relate to the paper's.

        Args:
            name: The name that was asked for.
            options: An instance of ``Options``.

        Returns:
            ``"yes"``: the same graphs; ``"rebuilt"``: made again by the same rules;
            ``"different"``: other rules, or the paper has no such data set.
            (default: ``"different"``)
        """
        return "different"

    def overlap(self, options: Any) -> str:
        """Say why splits share graphs on purpose.

        Args:
            options: An instance of ``Options``.

        Returns:
            The reason, for messages; empty if they share none. (default: ``""``)
        """
        return ""

    def identity(self, options: Any) -> str | None:
        """Return a text that changes with files that an option names.

        Args:
            options: An instance of ``Options``.

        Returns:
            The text, or None if no option names a file. (default: ``None``)
        """
        return None

    def positions(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return where nodes that are parts of an image are drawn.

        Args:
            x: Node features, ``[N, F]``.

        Returns:
            Positions to the right and up, ``[N, 2]``, and brightness from 0 to 1, ``[N]``; None if
            nodes are not parts of an image. (default: ``None``)
        """
        return None

    def sources(self, name: str) -> dict[str, tuple[RawFile, ...]]:
        """Return the raw files by the value of the option ``source``, the default first.

        Args:
            name: The name that was asked for.

        Returns:
            The files by value. A data set without that option has one entry, under ``""``.
        """
        field = self.Options.model_fields.get("source")
        if field is None:
            return {"": self.raw_files(name, self.Options())}
        values = sorted(typing.get_args(field.annotation), key=lambda value: value != field.default)
        return {
            value: self.raw_files(name, self.Options.model_validate({"source": value}))
            for value in values
        }


def check_options(
    name: str, options: type[DatasetOptions], given: Mapping[str, Any]
) -> DatasetOptions:
    """Check the options that were given for a data set."""
    try:
        return options.model_validate(dict(given))
    except ValidationError as error:
        # An unknown name first: it is often the reason for the other errors.
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        key = str(first["loc"][0])
        known = {info.name: info for info in describe(options)}
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{close[0]}'? " if close else ""
            listed = ", ".join(known) or "none"
            message = f"{name} has no option '{key}'; {hint}its options: {listed}"
        else:
            message = f"data option '{key}' must be {_wanted(known[key])}, not {given[key]!r}"
        raise DataError(message) from None


def _wanted(option: SettingInfo) -> str:
    """What an option takes, in words."""
    article = "a " if option.type.startswith("list") or option.type.endswith("number") else ""
    *others, last = option.type.split(" or ")
    words = f"{', '.join(others)} or {last}" if len(others) > 1 else option.type
    return f"{article}{words}" + (f" {option.range}" if option.range else "")
